// Command nightcrier watches Kubernetes clusters for faults, has each one
// investigated by an agent in a sandbox, and hands the engineer on call a
// report whose facts were checked.
//
// This package translates: flags to options, signals to stops, errors to exit
// codes, answers to text. It decides nothing.
package main

import (
	"context"
	"os"
	"time"

	"nightcrier.dev/nightcrier/internal/agent/worker"
	"nightcrier.dev/nightcrier/internal/check/selftest/probe"
)

func main() {
	if code, ok := hiddenStage(os.Args); ok {
		os.Exit(code)
	}
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, environ: os.Environ(), now: time.Now, colour: wantsColour(os.Stdout), width: terminalWidth(os.Stdout)}
	if knowsEscapeSequences(os.Stderr) {
		p.messageWidth, p.messageColour = terminalWidth(os.Stderr), wantsColour(os.Stderr)
	}
	os.Exit(p.runCommandLine(context.Background(), os.Args[1:]))
}

// hiddenStage runs the processes that stand beside each agent. There may be many
// of them, so they come before anything that costs memory.
func hiddenStage(args []string) (exit int, ok bool) {
	switch {
	case len(args) > 2 && args[1] == "worker":
		return worker.Main(context.Background(), args[2], os.Stdin, os.Stderr), true
	case len(args) > 1 && args[1] == "sandbox-init":
		return worker.InitMain(args[2:]), true
	case len(args) > 1 && args[1] == probe.Command:
		return probe.Run(args[2:], os.Stdout), true
	case len(args) > 1 && args[1] == probe.FloorCommand:
		return probe.OnTheFloor(args[2:], os.Stderr), true
	case len(args) > 1 && args[1] == worker.HookCommand:
		return worker.HookMain(args[2:]), true
	}
	return 0, false
}
