// Command runtests runs `go test -json` with its arguments and reports so that
// nothing hides: each package's line as it comes, the whole output of what
// failed, and at the end every test that was skipped, with its reason, and the
// counts. Its exit code is go test's.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"

	"nightcrier.dev/nightcrier/internal/test/testproc"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintf(os.Stderr, "runtests: %v\n", err)
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	// An interrupt reaches go test too, by the terminal; we stay to report. (Not
	// signal.Ignore, which go test would inherit.)
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 1, err
	}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	r := newReport(os.Stdout)
	readErr := r.read(out)
	err = cmd.Wait()
	r.processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	testproc.Sweep("nightcrier-") // what the tests' servers left behind
	r.summary()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), readErr
	case err != nil || readErr != nil:
		return 1, errors.Join(err, readErr)
	}
	return 0, nil
}
