package config

// readOnlyTools is what a triage agent may use when nothing is said.
const readOnlyTools = "Read,Grep,Glob," + readOnlyBash

const readOnlyBash = "Bash(kubectl:get*,kubectl:describe*,kubectl:logs*)"
