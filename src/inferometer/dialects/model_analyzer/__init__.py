"""The script `model-analyzer`, whose commands are also `inferometer profile`, `analyze` and `report`.

words, YAML -> config (`command_line`, `config`) -> settings of the tuner (`rules`, `build`)
study -> tables and reports (`tables`, `outputs`); trials <-> checkpoint (`checkpoint`)
"""

OK, FAILURE = 0, 1  # exit codes
