"""The classic tool's words: its options and YAML, console lines, tables, folders and checkpoints.

words, YAML -> asked (`keys`, `asked`) -> job (`models`, `flags`, `rules`, `build`) -> settings of the tuner
study -> tables, report command; variants -> folders; checkpoint <-> trials
"""
