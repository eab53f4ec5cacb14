"""The tuner: the best configuration of a model under the user's objectives and constraints.

    settings -> problem -> search -> trial -> study -> report

| module | holds |
|---|---|
| `settings` | everything a search can be asked; made by the commands |
| `checks` | what is refused before a server is started |
| `prepare` | settings -> the problem, and which search is made |
| `session` | the shell: asks the search, loads the variants, measures, writes the journal |
| `model_config` | a configuration as a document of the official ModelConfig message |
| `space` | what may be changed: parameters and choices, automatic or spelled out from a user's sweep |
| `variant` | a model with changes, under a name that stays (`VariantNames` gives them) |
| `trial` | variants + load -> figures, or the reason why there are none |
| `metrics` | the catalogue of figures: tag, header, which way is better |
| `figures` | a measured level in the tags of the catalogue |
| `scoring` | objectives and constraints; which trial is better |
| `study` | all trials of a search; `recommend` |
| `journal` | SQLite: every trial as it ends; resume |
| `search` | pure ask/tell objects: `brute`, `quick`, `optuna_search`, `smart` |
| `deployment` | where variants are loaded: in a server, or in the workers |
| `servers` | the servers: embedded, installed, in a container, remote |
| `meter` | one trial's load on running models -> figures |
| `prompts` | what is asked of a model that makes text |
| `report` | summary and detailed reports: folds over a `Study` |

`session.profile(settings, watcher)` runs it all.

A report never looks at a server or a clock: `Study` holds all it shows, and `study.write`/`from_json` keep it.
"""
