"""The tuner: the best configuration of a model under the user's objectives and constraints.

    space -> search -> trial -> study -> report

| module | noun |
|---|---|
| `metrics` | the catalogue of figures: tag, header, which way is better |
| `model_config` | a configuration as a document of the official ModelConfig message |
| `space` | what may be changed: parameters and choices, automatic or spelled out from a user's sweep |
| `variant` | a model with changes, under a name that stays (`Names` gives them) |
| `client_load` | the load of a trial |
| `trial` | variants + load -> figures, or the reason why there are none |
| `goal`, `scoring` | objectives and constraints; which trial is better |
| `study` | all trials of a search; `recommend` |
| `search` | pure ask/tell objects: `brute`, `quick`, `optuna`, `smart` |
| `launch` | where the models run: local, remote, docker |
| `idle` | the GPUs of a server without models |
| `meter` | one trial's load on a running model -> figures |
| `journal` | SQLite: every trial as it ends; resume |
| `run` | the shell: asks the search, loads the variant, measures, writes the journal |
| `settings` | everything a search can be asked, checked; made by the commands |
| `report` | summary and detailed reports: folds over a `Study` |

`session.profile(settings, watcher)` runs it all.

A report never looks at a server or a clock: `Study` holds all it shows, and `study.write`/`from_json` keep it.
"""
