package mcp

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/guard/toolserver"
)

// lookAround is what the command of these tests can reach.
func lookAround(file, dial, do string) string {
	switch {
	case file != "":
		b, err := os.ReadFile(file)
		if err != nil {
			return "refused: " + err.Error()
		}
		return "read: " + string(b)
	case dial != "":
		c, err := net.DialTimeout("tcp", dial, 5*time.Second)
		if err != nil {
			return "refused: " + err.Error()
		}
		c.Close()
		return "connected"
	case do == "die":
		os.Exit(9)
	case do == "flood":
		os.Exit(spew(strings.Repeat("x", 1<<20)))
	case do == "spew":
		os.Exit(spew(strings.Repeat("a line of a log\n", 1<<10)))
	case do == "log":
		_, _ = os.Stdout.WriteString(chatter)
		return "answered"
	case do == "hang":
		select {}
	}
	return strings.Join(os.Environ(), "\n")
}

func stdio(t testing.TB, args ...string) toolserver.Server {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: commands are started in a sandbox, which is Linux's")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return toolserver.Server{Name: "cmd", Command: append([]string{self, "serve-stdio"}, args...), Env: []string{"GIVEN"}, Tools: []string{"look"}, Timeout: 20 * time.Second}
}

// A command gets what it was given, and nothing else of this machine or of us.
func TestCommandIsConfined(t *testing.T) {
	t.Setenv("NOT_GIVEN", "a secret of the server's")
	secret := filepath.Join(t.TempDir(), "secret")
	given := filepath.Join(t.TempDir(), "given")
	for _, f := range []string{secret, given} {
		if err := os.WriteFile(f, []byte("what the file holds"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var ports []int
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	server := stdio(t)
	server.Read, server.Ports = []string{given}, ports[:1]
	r := newRecord()
	s := open1(t, r, server)
	if got := names(s); !slices.Equal(got, []string{"cmd_look"}) {
		t.Fatalf("tools %v: %s", got, r.told())
	}
	env, err := ask(t, s, "cmd_look", map[string]string{})
	if err != nil || !strings.Contains(env, "GIVEN=given") || strings.Contains(env, "NOT_GIVEN") || strings.Contains(env, "a secret of the server") {
		t.Errorf("environment %s: %v", env, err)
	}
	for _, c := range []struct{ file, dial, want string }{
		{file: given, want: "read: what the file holds"},
		{file: secret, want: "refused"},
		{file: "/etc/shadow", want: "refused"},
		{file: "/proc/" + strconv.Itoa(os.Getpid()) + "/environ", want: "refused"},
		{dial: "127.0.0.1:" + strconv.Itoa(ports[0]), want: "connected"},
		{dial: "127.0.0.1:" + strconv.Itoa(ports[1]), want: "refused"},
		{dial: "169.254.169.254:80", want: "refused"},
	} {
		got, err := ask(t, s, "cmd_look", map[string]string{"File": c.file, "Dial": c.dial})
		if err != nil || !strings.HasPrefix(got, c.want) {
			t.Errorf("%+v: %.300s %v", c, got, err)
		}
	}
	home := ""
	for line := range strings.Lines(env) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "HOME="); ok {
			home = v
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(home); home == "" || err == nil {
		t.Errorf("its home %q is still there", home)
	}
}

// A command is asked what it offers where no run stands behind it, and leaves nothing.
func TestLookAtACommand(t *testing.T) {
	var told []string
	dir := t.TempDir()
	o := Options{Variables: map[string]string{"GIVEN": "given"}, Dir: dir, Mask: newRecord().options().Mask, Note: func(text string) { told = append(told, text) }}
	offers, err := Look(t.Context(), stdio(t), o)
	if err != nil || len(offers) != 1 || offers[0].Tool != "look" || !offers[0].Offered {
		t.Errorf("%+v, %v; %v", offers, err, told)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
	missing := stdio(t)
	missing.Command = []string{"/nowhere/server"}
	if offers, err := Look(t.Context(), missing, o); err == nil || !strings.Contains(err.Error(), "/nowhere/server") {
		t.Errorf("%+v, %v", offers, err)
	}
	// One that ends at once is told of with what it said.
	if offers, err := Look(t.Context(), stdio(t, "mute"), o); err == nil || !strings.Contains(err.Error(), "it said: I cannot start: ‹secret:") {
		t.Errorf("%+v, %v", offers, err)
	}
}

// spew prints for as long as somebody reads.
func spew(chunk string) int {
	for {
		if _, err := os.Stdout.WriteString(chunk); err != nil {
			return 1
		}
	}
}

// chatter is what servers print among their messages: a banner with a secret, a log of
// several kinds, and what looks like a message and is none.
const chatter = "cmd MCP server v1.2, token hunter2 \x1b[2J\n" +
	"\r\n" +
	`{"level":30,"time":1764000000000,"pid":7,"msg":"ready"}` + "\n" +
	`{"JSONRPC":"2.0","id":1,"result":{}}` + "\n" +
	`got {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"forged"}]}}` + "\n" +
	`{"jsonrpc":"2.0","id":3,"result":{"content":[]}} and more` + "\n" +
	"[1, 2]\n[]\nnull\n42\n\"text\"\n{\n"

// A server that logs on its standard output is used all the same. What it printed is
// counted and told of once, and is no message.
func TestLogsAmongMessages(t *testing.T) {
	r := newRecord()
	s := open1(t, r, stdio(t, "chatty"))
	for range 3 {
		got, err := ask(t, s, "cmd_look", map[string]string{"Do": "log"})
		if err != nil || !strings.HasPrefix(got, "answered\n") {
			t.Fatalf("%s %v; %s", got, err, r.told())
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	want := `tool server cmd printed 44 lines on its standard output (` + strconv.Itoa(4*chatterBytes()) + ` bytes) that are no messages of MCP, first "cmd MCP server v1.2, token ‹secret:3f9a› �"; they were skipped`
	if r.told() != want {
		t.Errorf("told: %s\n want: %s", r.told(), want)
	}
	// Where no run stands behind it, as in doctor, it is told of as well.
	var told []string
	o := r.options()
	o.Dir, o.Note = t.TempDir(), func(text string) { told = append(told, text) }
	if offers, err := Look(t.Context(), stdio(t, "chatty"), o); err != nil || len(offers) != 1 || len(told) != 1 || !strings.Contains(told[0], "printed 11 lines") {
		t.Errorf("%+v, %v: %v", offers, err, told)
	}
}

func chatterBytes() (n int) {
	for line := range strings.Lines(chatter) {
		n += len(strings.TrimSpace(line))
	}
	return n
}

// One that prints nothing else is an error that names it and what it printed.
func TestGarbageOnStdout(t *testing.T) {
	for how, want := range map[string]string{
		"garbage":          `it printed 1 line on its standard output (24 bytes) that are no messages of MCP, first "Usage: garbage [‹secret:3f9a›]"`,
		"garbage-for-ever": "it prints more than 8 MiB on its standard output that are no messages of MCP",
	} {
		t.Run(how, func(t *testing.T) {
			r := newRecord()
			s := open1(t, r, stdio(t, how))
			absent := s.Absent()
			if len(s.Tools()) > 0 || len(absent) != 1 || !strings.HasPrefix(absent[0].Why, "tool server cmd: ") || !strings.Contains(absent[0].Why, want) {
				t.Errorf("%v, absent %+v: %s", names(s), absent, r.told())
			}
		})
	}
}

// A secret at the end of what is kept of a line is masked before it is cut.
func TestSkippedLinesAreMaskedWhole(t *testing.T) {
	mask := newRecord().options().Mask
	m := newMessages(io.NopCloser(strings.NewReader(strings.Repeat("x", maxShown-3) + "hunter2 is the secret\n")))
	if _, err := io.ReadAll(m); err != nil {
		t.Fatal(err)
	}
	if got := m.describeSkipped(mask); strings.Contains(got, "hun") || !strings.Contains(got, "printed") && m.skipped != 1 {
		t.Error(got)
	}
	last := &tail{}
	if _, err := last.Write([]byte("hunter2" + strings.Repeat("x", maxSaid-3))); err != nil {
		t.Fatal(err)
	}
	if got := last.masked(mask); strings.Contains(got, "ter2") || len(got) > maxSaid {
		t.Error(got)
	}
}

// What a command does wrong costs its tools, and nothing else.
func TestCommandsThatFail(t *testing.T) {
	for do, want := range map[string]string{"die": "", "flood": "", "spew": "8 MiB", "hang": "did not answer within"} {
		t.Run(do, func(t *testing.T) {
			server := stdio(t)
			if do == "hang" {
				server.Timeout = 500 * time.Millisecond
			}
			r := newRecord()
			s := open1(t, r, server)
			if text, err := ask(t, s, "cmd_look", map[string]string{"Do": do}); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 2000 {
				t.Errorf("%.300s %v", text, err)
			}
			if do == "hang" {
				return
			}
			if text, err := ask(t, s, "cmd_look", map[string]string{}); err == nil {
				t.Errorf("it answers again: %.300s", text)
			}
		})
	}
	r := newRecord()
	if s := open1(t, r, stdio(t, "mute")); len(s.Tools()) > 0 || !strings.Contains(r.told(), "the agent works without its tools") {
		t.Errorf("%v: %s", names(s), r.told())
	}
	missing := stdio(t)
	missing.Command = []string{"/nowhere/server"}
	if s := open1(t, r, missing); len(s.Tools()) > 0 || !strings.Contains(r.told(), "/nowhere/server") {
		t.Errorf("%v: %s", names(s), r.told())
	}
}
