package selftest

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// A flood is cut off, and the streams are read beside each other: whichever is kept says
// first that the program has begun.
func TestAGlutHasBegunOnBothStreams(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", glut{script: "echo flood; echo flood >&2"}.scriptText("mark"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{stdout.String(), stderr.String()} {
		if said != "begun\nflood\n" {
			t.Errorf("it said %q", said)
		}
	}
}

// The line above the table and the table itself count the same attacks as failed.
func TestTheSummaryAgreesWithTheTotals(t *testing.T) {
	attack := func(outcome string) Result {
		return Result{Suite: "s", By: "shell", Attack: outcome, Outcome: outcome, Passed: outcome == Stopped || outcome == Defused}
	}
	for _, c := range []struct {
		outcomes []string
		want     string
	}{
		{[]string{Stopped, Defused, NotPossible}, "2 attacks, and all are stopped or defused"},
		{[]string{Stopped, NotExercised}, "2 attacks, of which 1 failed: 1 could not be made (not-exercised by shell)"},
		{[]string{Succeeded, Unseen, NotPossible}, "2 attacks, of which 2 failed: 2 not stopped (succeeded by shell, unseen by shell)"},
		{[]string{Succeeded, NotExercised}, "2 attacks, of which 2 failed: 1 not stopped (succeeded by shell); 1 could not be made (not-exercised by shell)"},
	} {
		var r Report
		for _, o := range c.outcomes {
			r.Attacks = append(r.Attacks, attack(o))
		}
		if got := r.Summary(); got != c.want {
			t.Errorf("%q: %s, want %s", c.outcomes, got, c.want)
		}
		failed := sumResults(r.Attacks)[0].Failed
		if told := strings.Contains(r.Summary(), fmt.Sprintf("of which %d failed", failed)); told != (failed > 0) {
			t.Errorf("%s, and the table says that %d failed", r.Summary(), failed)
		}
	}
}
