package mcp

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nightcrier.dev/nightcrier/internal/toolserver"
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
		chunk := strings.Repeat("x", 1<<20)
		for {
			if _, err := os.Stdout.WriteString(chunk); err != nil {
				os.Exit(1)
			}
		}
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

// What a command does wrong costs its tools, and nothing else.
func TestCommandsThatFail(t *testing.T) {
	for do, want := range map[string]string{"die": "", "flood": "", "hang": "did not answer within"} {
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
