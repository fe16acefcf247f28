package testproc

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// rerunFails makes TestRerun fail where it is run again.
const rerunFails = "TESTPROC_RERUN_FAILS"

// A test that fails without the race detector fails; one that does not, does not.
func TestRerun(t *testing.T) {
	if os.Getenv(rerunFails) != "" {
		t.Fatal("as told")
	}
	if !Raced() {
		t.Skip("SKIPPED ALOUD: nothing to leave out: this program has no race detector")
	}
	Rerun(t)
	path, err := Unraced()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-test.run=^TestRerun$")
	cmd.Env = append(os.Environ(), rerunFails+"=1")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "as told") {
		t.Errorf("it ended with %v: %s", err, out)
	}
	cmd = exec.Command(path, "-test.v", "-test.run=^TestRerun$")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "has no race detector") {
		t.Errorf("what was built without the race detector says %v: %s", err, out)
	}
}
