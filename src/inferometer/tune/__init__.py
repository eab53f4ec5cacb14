"""The tuner: the best configuration of a model under the user's objectives and constraints.

    settings -> problem -> search -> trial -> study -> report

| module | holds |
|---|---|
| `settings` | everything a search can be asked, prompts included; made by the commands |
| `prepare` | settings -> the problem, which search is made, and what is refused before a server is started |
| `session` | the shell: asks the search, loads the variants, measures, writes the journal |
| `model_config` | a configuration as a document of the official ModelConfig message |
| `space` | what may be changed: parameters and choices, automatic or spelled out from a user's sweep |
| `variant` | a model with changes, under a name that stays (`VariantNames` gives them) |
| `trial` | variants + load -> figures, or the reason why there are none |
| `scoring` | objectives and constraints; which trial is better |
| `study` | all trials of a search; `recommend` |
| `journal` | SQLite: every trial as it ends; resume |
| `search` | pure ask/tell objects: `brute`, `quick`, `optuna_search`, `smart` |
| `deployment` | where variants are loaded: in a server, or in the workers |
| `servers` | the servers: embedded, installed, in a container, remote |
| `attempt` | a proposal measured once on a server |
| `parallel`, `parallel_session` | several servers at once: who measures what, lost servers, resume |
| `machine` | which machines are alike |
| `ray_servers`, `server_agent` | servers on a Ray cluster, and what each of them does there |
| `meter` | one trial's load on running models -> figures, in the tags of `stats.figures` |

`parallel_session.studies(settings, watcher)` runs it all.

A report never looks at a server or a clock: `Study` holds all it shows, and `base.answer_file` keeps it.
"""
