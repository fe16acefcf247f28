package clitest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"nightcrier.dev/nightcrier/internal/fake/fakemodel"
	"nightcrier.dev/nightcrier/internal/test/clitest"
)

// session is one headless run of the real claude against a scenario.
type session struct {
	cmd *exec.Cmd
	out bytes.Buffer
	dir string
}

func newSession(t *testing.T, m *fakemodel.Server, scenario string, args ...string) *session {
	t.Helper()
	s := &session{dir: t.TempDir()}
	s.cmd = exec.CommandContext(t.Context(), clitest.Claude(t), append([]string{
		"-p", "--output-format", "stream-json", "--verbose", "--restricted", "--tools", "Read,Bash",
		"--permission-prompts", "none", "--strict-mcp-config", "--no-session-persistence",
	}, args...)...)
	s.cmd.Dir = s.dir
	s.cmd.Stdin = strings.NewReader("What is wrong with the pod?")
	s.cmd.Stdout = &s.out
	s.cmd.Stderr = &s.out
	s.cmd.Env = []string{
		"HOME=" + t.TempDir(), "TMPDIR=" + t.TempDir(), "PATH=" + os.Getenv("PATH"),
		"ANTHROPIC_BASE_URL=" + m.URL(scenario), "ANTHROPIC_API_KEY=test-key",
		"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "DISABLE_ERROR_REPORTING=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "CLAUDE_CODE_MAX_RETRIES=2",
	}
	return s
}

// result is the last line of the kind that says how a session ended.
type result struct {
	Type     string
	Subtype  string
	IsError  bool `json:"is_error"`
	Result   string
	Status   int    `json:"api_error_status"`
	Terminal string `json:"terminal_reason"`
}

// end waits for the session and returns its exit code and result.
func (s *session) end(t *testing.T) (int, result) {
	t.Helper()
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var last result
	for line := range bytes.Lines(s.out.Bytes()) {
		var r result
		if json.Unmarshal(line, &r) == nil && r.Type == "result" {
			last = r
		}
	}
	return s.cmd.ProcessState.ExitCode(), last
}

func TestClaudePlaysTheScenarios(t *testing.T) {
	m := fakemodel.New(t)
	cases := map[string]struct {
		args   []string
		exit   int
		want   result
		answer string // part of the result's text
	}{
		"plain":           {exit: 0, want: result{Subtype: "success", Terminal: "completed"}, answer: "names a database"},
		"read-context":    {exit: 0, want: result{Subtype: "success", Terminal: "completed"}, answer: "about web-7d4b9c8f6d-x2x2x"},
		"overloaded-once": {exit: 0, want: result{Subtype: "success", Terminal: "completed"}, answer: "second attempt"},
		"cut-once":        {exit: 0, want: result{Subtype: "success", Terminal: "completed"}, answer: "arrives whole"},
		"bad-key":         {exit: 1, want: result{Subtype: "success", IsError: true, Status: 401, Terminal: "api_error"}},
		"quota":           {exit: 1, want: result{Subtype: "success", IsError: true, Status: 429, Terminal: "api_error"}},
		"endless":         {args: []string{"--max-turns", "3"}, exit: 1, want: result{Subtype: "error_max_turns", IsError: true, Terminal: "max_turns"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSession(t, m, name, c.args...)
			writeIncident(t, s.dir, "shop", "web-7d4b9c8f6d-x2x2x")
			if err := s.cmd.Start(); err != nil {
				t.Fatal(err)
			}
			exit, got := s.end(t)
			if !strings.Contains(got.Result, c.answer) {
				t.Errorf("answer = %q, want %q in it", got.Result, c.answer)
			}
			got.Type, got.Result = "", ""
			if exit != c.exit || got != c.want {
				t.Errorf("exit %d, %+v, want %d, %+v\n%s", exit, got, c.exit, c.want, s.out.Bytes())
			}
			for _, r := range m.Requests(name) {
				if r.Header.Get("X-Api-Key") != "test-key" {
					t.Errorf("request %s carries the key %q", r.Path, r.Header.Get("X-Api-Key"))
				}
			}
		})
	}
}

func TestClaudeEndsOnInterruptWhileTheModelHangs(t *testing.T) {
	m := fakemodel.New(t)
	s := newSession(t, m, "hang")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-m.Held("hang")
	if err := s.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	exit, got := s.end(t)
	if exit != 0 || !got.IsError || got.Terminal != "aborted_streaming" {
		t.Errorf("exit %d, %+v; an interrupted claude exits 0 and says it was aborted\n%s", exit, got, s.out.Bytes())
	}
}

func TestClaudeIsThePinnedVersion(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), clitest.Claude(t), "--version")
	cmd.Env = []string{"HOME=" + t.TempDir()}
	out, err := cmd.Output()
	if err != nil || !strings.HasPrefix(string(out), clitest.Version("claude")+" ") {
		t.Errorf("claude --version = %q, %v, want %s", out, err, clitest.Version("claude"))
	}
}

// skipRecorder is a test that notes how it was skipped.
type skipRecorder struct {
	testing.TB
	said string
}

func (r *skipRecorder) Skipf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestSkipsAloudWhenNotInstalled(t *testing.T) {
	t.Setenv("NIGHTCRIER_CACHE", t.TempDir())
	t.Setenv("NIGHTCRIER_CLI", "")
	r := &skipRecorder{TB: t}
	var wg sync.WaitGroup
	wg.Go(func() { clitest.Claude(r) })
	wg.Wait()
	if !strings.Contains(r.said, "SKIPPED ALOUD") || !strings.Contains(r.said, "make clis") {
		t.Errorf("without a CLI the test is told %q", r.said)
	}
}
