package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A wrong call ends with 2, before anybody is asked, and its message names the flag, the
// file or the word that is wrong, and what would be right.
func TestWrongCalls(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", "")
	t.Chdir(dir)
	for name, text := range map[string]string{"README.md": "# Title", "empty.json": " ", "other.json": `{"a": 1}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for call, want := range map[string]string{
		"triage":                               "what is to be investigated?",
		"triage --event README.md":             "--event README.md is not JSON",
		"triage --event empty.json":            "--event empty.json is empty",
		"triage --event other.json":            "--event other.json: the event opens no incident",
		"triage --event nope":                  "--event nope: no such file",
		"triage --event .":                     "--event .: is a directory",
		"triage --alert README.md":             "--alert README.md is not JSON",
		"triage --alert other.json":            "--alert other.json: ",
		"triage deploy/ca\u00a0rt":             "cannot be the name of a Deployment",
		"triage deploy/cart/x/y":               `"cart/x/y" cannot be the name of a Deployment`,
		"triage deploy/Cart":                   "did you mean deployment/cart?",
		"triage deploy/-cart":                  `"-cart" cannot be the name of a Deployment`,
		"triage deploy/$(id)":                  "cannot be the name of a Deployment",
		"triage deploy/cart -n Sh_op":          `-n: "Sh_op" cannot be the name of a namespace`,
		"triage -n Sh_op":                      `-n: "Sh_op" cannot be the name of a namespace`,
		"triage deploy/cart --kubeconfig nope": "--kubeconfig nope: no such file",
		"triage deploy/cart --timeout 5":       "flag --timeout",
		"mcp --listen nonsense":                `--listen: "nonsense" is not an address: write host:port`,
		"mcp --listen 127.0.0.1:99999":         `--listen: "127.0.0.1:99999" has no port`,
		"mcp --token-file nope":                "--token-file nope: no such file",
		"demo extra":                           `nightcrier demo takes no argument, "extra" was given`,
		"guard --budget-usd x -- ls":           `flag --budget-usd: "x" is not an amount of dollars`,
		"incidents show xyz":                   `"xyz" is not the ID of an incident`,
		"incidents show ../x":                  `"../x" is not the ID of an incident`,
		"incidents list --status bogus":        `flag --status: `,
		"incidents list --since yesterday":     `flag --since: "yesterday" is neither`,
		"incidents list --limit -1":            `flag --limit: "-1" is not a whole number from 1`,
		"events list --limit 5000":             `flag --limit: "5000" is not a whole number from 1`,
		"rbac manifest --name A_b":             `--name: "A_b" cannot be the name`,
		"completion tcsh":                      `unknown command "tcsh"`,
		"eval nope":                            "nope: no such file",
		"trigae":                               "did you mean triage?",
		"triage deploy/cart --snapshot nope":   "snapshot nope does not exist: `nightcrier snapshot --out DIR` records a cluster into one",
		"snapshot serve nope":                  "snapshot nope does not exist: `nightcrier snapshot --out DIR` records a cluster into one",
		"snapshot serve README.md":             "snapshot README.md is no directory: `nightcrier snapshot --out DIR`",
	} {
		var out, said bytes.Buffer
		p := &program{stdin: strings.NewReader(""), stdout: &out, stderr: &said, now: time.Now}
		code := p.runCommandLine(t.Context(), strings.Split(call, " "))
		text := said.String()
		if code != 2 || !strings.Contains(text, want) || out.Len() > 0 {
			t.Errorf("%s: exit %d, %s%s", call, code, text, out.String())
		}
		for _, word := range []string{"open ", "stat ", "listen tcp", "strconv", "invalid argument"} {
			if strings.Contains(text, word) {
				t.Errorf("%s: these are a program's words: %s", call, text)
			}
		}
	}
}
