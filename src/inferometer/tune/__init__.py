"""The tuner: find the best configuration of a model under the user's objectives and constraints.

    settings -> problem -> search -> trial -> study -> report

| module | contents |
|---|---|
| `settings` | all settings of a search, including prompts |
| `request`, `served`, `goals` | the options of `tune` -> settings; `served` for servers started by `--serve` |
| `prepare` | settings -> problem and search, and the checks made before a server is started |
| `beginning` | the beginning of a search: its problem, its steps, its study |
| `session` | the imperative shell: asks the search, loads the variants, measures, writes the journal |
| `model_config` | a configuration as a document of the official ModelConfig message |
| `knobs`, `condition` | the configurations of a server started by a command line |
| `space` | parameters and their choices, automatic or listed by the user |
| `variant` | a changed model under a permanent name (given by `VariantNames`) |
| `trial` | variants + load -> figures, or the reason why there are none |
| `scoring` | objectives and constraints; which trial is better |
| `study` | all trials of a search; `recommend` |
| `journal` | SQLite: every trial as soon as it ends; resume |
| `search` | pure ask/tell generators: `brute`, `quick`, `optuna_search`, `smart` |
| `deployment` | where variants are loaded: in a server, or in the workers |
| `launched` | a deployment that starts a server for each configuration |
| `servers` | the servers: embedded, installed, in a container, remote |
| `attempt` | one measurement of a proposal on a server |
| `parallel`, `parallel_session` | several servers at once: assignment, lost servers, resume |
| `machine` | comparison of machines |
| `ray_servers`, `server_agent` | servers on a Ray cluster, and the agent of each of them |
| `meter` | load of one trial on running models -> figures |
| `trial_figures` | a measured level under the tags of `stats.figures` |
| `fingerprint` | digest of the requests |

`parallel_session.studies(settings, watcher)` runs everything.

A report never uses a server or a clock: `Study` holds all it shows, and `base.answer_file` saves it.
"""
