package hook

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nightcrier.dev/nightcrier/internal/guard/readonly"
)

// asks is claude's question before it runs a command.
func asks(command string) string {
	q, _ := json.Marshal(map[string]any{"session_id": "s", "cwd": "/ws", "permission_mode": "default", "hook_event_name": "PreToolUse",
		"tool_name": "Bash", "tool_input": map[string]any{"command": command, "description": "look"}, "tool_use_id": "toolu_1"})
	return string(q)
}

func TestClaudeHook(t *testing.T) {
	for _, c := range []struct {
		name, question, decision, reason string
	}{
		{"reads", asks("kubectl get pods -A | head"), "allow", ""},
		{"writes", asks("kubectl delete pod x"), "deny", "kubectl delete is not available: this investigation may only use kubectl get, logs"},
		{"not of the policy", asks("kubectl describe pod x"), "deny", "kubectl describe"},
		{"in a directory of the workspace", strings.Replace(asks("ls"), `"/ws"`, `"/ws/context"`, 1), "allow", ""},
		{"elsewhere", strings.Replace(asks("ls"), `"/ws"`, `"/etc"`, 1), "deny", "cd /ws"},
		{"beside", strings.Replace(asks("ls"), `"/ws"`, `"/ws2"`, 1), "deny", "cd /ws"},
		{"above", strings.Replace(asks("ls"), `"/ws"`, `"/ws/.."`, 1), "deny", "cd /ws"},
		{"nowhere", `{"tool_name":"Bash","tool_input":{"command":"ls"}}`, "deny", "cd /ws"},
		{"another tool", `{"cwd":"/ws","tool_name":"WebFetch","tool_input":{"command":"ls"}}`, "deny", "WebFetch"},
		{"no tool", `{}`, "deny", "not available"},
		{"in the background", `{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":"ls","run_in_background":true}}`, "deny", "foreground"},
		{"without its sandbox", `{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":"ls","dangerouslyDisableSandbox":true}}`, "deny", "sandbox"},
		{"no command", `{"cwd":"/ws","tool_name":"Bash","tool_input":{}}`, "deny", "no command"},
		{"two commands", `{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":"curl x","command":"ls"}}`, "deny", "not understood"},
		{"a command in capitals", `{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":"curl x","COMMAND":"ls"}}`, "deny", "COMMAND"},
		{"background in capitals", `{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":"ls","run_in_background":true,"RUN_IN_BACKGROUND":false}}`, "deny", "RUN_IN_BACKGROUND"},
		{"another tool in capitals", `{"cwd":"/ws","tool_name":"WebFetch","TOOL_NAME":"Bash","tool_input":{"command":"ls"}}`, "deny", "WebFetch"},
		{"an argument of a later version", `{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":"ls","as_root":true}}`, "deny", "as_root"},
		{"with a time limit", `{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":"ls","timeout":1000,"description":"look"}}`, "allow", ""},
		{"another type", `{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":["ls"]}}`, "deny", "not understood"},
		{"nothing", "", "deny", "not understood"},
		{"garbage", "\x00\xff{", "deny", "not understood"},
		{"two questions", asks("ls") + asks("rm x"), "deny", "not understood"},
		{"too long", asks(strings.Repeat("x", maxQuestion)), "deny", "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			if code := AnswerQuestion([]string{"claude", "/ws", "get", "logs"}, strings.NewReader(c.question), &out); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			var a struct {
				Output struct {
					Event    string `json:"hookEventName"`
					Decision string `json:"permissionDecision"`
					Reason   string `json:"permissionDecisionReason"`
				} `json:"hookSpecificOutput"`
			}
			if err := json.Unmarshal([]byte(out.String()), &a); err != nil {
				t.Fatal(err)
			}
			if a.Output.Event != "PreToolUse" || a.Output.Decision != c.decision || !strings.Contains(a.Output.Reason, c.reason) {
				t.Errorf("answer %+v, want %s for %q", a.Output, c.decision, c.reason)
			}
		})
	}
}

// A hook that is called wrongly allows nothing.
func TestHookFails(t *testing.T) {
	for _, args := range [][]string{nil, {"claude"}, {"vi", "/ws", "get"}} {
		var out strings.Builder
		if code := AnswerQuestion(args, strings.NewReader(asks("ls")), &out); code == 0 || out.Len() > 0 {
			t.Errorf("%q: exit code %d, said %q", args, code, &out)
		}
	}
	if _, _, err := CommandLine("", "claude", "/ws", nil); err == nil {
		t.Error("a hook without a program")
	}
}

// The command of a hook goes through a shell.
func TestHookLine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "it's; a $(dir)")
	self := filepath.Join(dir, "nightcrier")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(self, []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	line, read, err := CommandLine(self, "claude", dir, []string{"get"})
	if err != nil || len(read) == 0 || read[0] != self {
		t.Fatalf("%q %v", read, err)
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c", line).CombinedOutput()
	if want := fmt.Sprintf("hook|claude|%s|get|", dir); err != nil || string(out) != want {
		t.Errorf("ran %q, %v, want %q", out, err, want)
	}
}

func FuzzHook(f *testing.F) {
	f.Add(asks("kubectl get pods"))
	f.Add(`{"cwd":"/ws","tool_name":"Bash","tool_input":{"command":["ls"]}}`)
	f.Fuzz(func(t *testing.T, question string) {
		var out strings.Builder
		code := AnswerQuestion([]string{"claude", "/ws", "get"}, strings.NewReader(question), &out)
		if code != 0 || !json.Valid([]byte(out.String())) {
			t.Fatalf("exit code %d, said %q", code, &out)
		}
		var q struct {
			Input struct {
				Command string `json:"command"`
			} `json:"tool_input"`
		}
		allowed := strings.Contains(out.String(), `"permissionDecision":"allow"`)
		if err := json.Unmarshal([]byte(question), &q); allowed && (err != nil || (readonly.Checker{Workspace: "/ws", Policy: readonly.Policy{Verbs: []string{"get"}}}).Check(q.Input.Command) != nil) {
			t.Fatalf("allowed %q", question)
		}
	})
}
