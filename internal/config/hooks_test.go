package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

const hook = `
webhooks:
  - name: pager
    token_env: PAGER_TOKEN
    cluster: '"prod"'
    items: body.messages
    when: item.kind == "incident"
    object: {kind: '"Deployment"', namespace: item.ns, name: item.app}
    type: '"Paged"'
    severity: item.urgency
    text: item.title
    key: item.id
    cleared: |
      item.state
        == "resolved"
  - {name: other, cluster: body.cluster}
`

func TestWebhooks(t *testing.T) {
	cfg, _, err := load(t, hook, []string{"PAGER_TOKEN=0123456789abcdef"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, second := cfg.Webhooks[0], cfg.Webhooks[1]
	want := Webhook{Name: "pager", TokenEnv: "PAGER_TOKEN", Token: first.Token, Cluster: `"prod"`, Items: "body.messages", When: `item.kind == "incident"`,
		Kind: `"Deployment"`, Namespace: "item.ns", Object: "item.app", Type: `"Paged"`, Severity: "item.urgency", Text: "item.title", Key: "item.id",
		Cleared: "item.state\n  == \"resolved\""}
	if first != want || first.Token.Reveal() != "0123456789abcdef" {
		t.Errorf("%#v", first)
	}
	if second.Name != "other" || second.Token.IsSet() {
		t.Errorf("%#v", second)
	}
	if at := cfg.Origin("webhooks[0].when").Line; at != 7 {
		t.Errorf("webhooks[0].when stands in line %d", at)
	}
}

func TestWebhookProblems(t *testing.T) {
	for yaml, want := range map[string]string{
		"webhooks: [{name: a, cluster: 'body.'}]":                              "webhooks[0].cluster: is not a valid expression: line 1, column 6",
		"webhooks: [{name: a, cluster: '\"x\"', when: '\"yes\"'}]":             "webhooks[0].when: is an expression that yields string: it must yield true or false",
		"webhooks: [{name: a, cluster: '\"x\"', items: nope}]":                 "webhooks[0].items: is not a valid expression: line 1, column 1: undeclared reference to 'nope'",
		"webhooks: [{name: a}]":                                                "webhooks[0].cluster: is missing",
		"webhooks: [{cluster: '\"x\"'}]":                                       "webhooks[0].name: is missing",
		"webhooks: [{name: alertmanager, cluster: '\"x\"'}]":                   "not a name for a webhook",
		"webhooks: [{name: ../x, cluster: '\"x\"'}]":                           "not a name for a webhook",
		"webhooks: [{name: a, cluster: '\"x\"'}, {name: a, cluster: '\"x\"'}]": "also the name of webhooks[0]",
		"webhooks: [{name: a, cluster: '\"x\"', object: {knd: x}}]":            "did you mean webhooks[0].object.kind",
		"clusters: [{name: a, alertmanager: {labels: {pid: x}}}]":              "did you mean pod",
		"clusters: [{name: a, alertmanager: {labels: {pod: 'a b'}}}]":          "not the name of a label",
		"clusters: [{name: a, alertmanager: {token_env: 'secret token'}}]":     "not the name of an environment variable",
		"listen: 127.0.0.1:99\nwebhook_listen: 127.0.0.1:99":                   "same address",
		"clusters: [{name: a, alertmanager: {token_env: SPACED, labels: {}}}]": "contains a space",
	} {
		_, _, err := load(t, yaml, []string{"SPACED=a b"}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", yaml, err, want)
		}
	}
}

// A token that was asked for and is not there is no open door, and a check fails.
func TestMissingToken(t *testing.T) {
	for _, yaml := range []string{"clusters: [{name: a, alertmanager: {token_env: NOT_SET}}]", "webhooks: [{name: a, token_env: NOT_SET, cluster: '\"a\"'}]"} {
		_, warnings := mustLoad(t, yaml)
		if !slices.ContainsFunc(warnings, func(w Warning) bool { return w.FailsCheck && strings.Contains(w.Text, "nobody may post") }) {
			t.Errorf("%s: %v", yaml, warnings)
		}
	}
	const idle = "serves nothing: no webhook has a token_env"
	if _, warnings := mustLoad(t, "webhook_listen: 127.0.0.1:97"); !hasWarning(warnings, idle) {
		t.Error(warnings)
	}
	if _, warnings := mustLoad(t, "webhook_listen: 127.0.0.1:97\nclusters: [{name: a, alertmanager: {token_env: NOT_SET}}]"); hasWarning(warnings, idle) {
		t.Error(warnings)
	}
}

// A webhook that no address serves is worth a word: its sender gets no answer.
func TestWebhooksThatNobodyReaches(t *testing.T) {
	for yaml, want := range map[string]string{
		"webhooks: [{name: a, cluster: '\"a\"'}]":                                           "webhooks[0].name",
		"clusters: [{name: a, alertmanager: {token_env: T}}]":                               "clusters[0].alertmanager.token_env",
		"listen: none\nwebhooks: [{name: a, cluster: '\"a\"'}]":                             "webhooks[0].name",
		"listen: 127.0.0.1:99\nwebhooks: [{name: a, cluster: '\"a\"'}]":                     "",
		"webhook_listen: 127.0.0.1:99\nclusters: [{name: a, alertmanager: {token_env: T}}]": "",
		"clusters: [{name: a}]\nhealth_listen: 127.0.0.1:99":                                "",
	} {
		_, warnings := mustLoad(t, yaml, "T="+strings.Repeat("t", 32))
		i := slices.IndexFunc(warnings, func(w Warning) bool { return w.FailsCheck && strings.Contains(w.Text, "nobody can send") })
		switch {
		case i < 0 && want != "":
			t.Errorf("%s: %v", yaml, warnings)
		case i >= 0 && warnings[i].Key != want:
			t.Errorf("%s: %v, want %q", yaml, warnings[i], want)
		}
	}
}

func TestProblemsStandInTheOrderOfTheFile(t *testing.T) {
	_, _, err := load(t, "webhooks: [{name: Bad_1, cluster: 'body.c'}]\nclusters: [{name: Bad_2}]\nlisten: nowhere", nil, map[string]string{"log-level": "loud"}) // a flag is named as it was given
	var found Problems
	if !errors.As(err, &found) {
		t.Fatal(err)
	}
	var keys []string
	for _, p := range found {
		keys = append(keys, p.Key)
	}
	if want := []string{"webhooks[0].name", "clusters[0].name", "listen", "log-level"}; !slices.Equal(keys, want) {
		t.Errorf("%q, want %q", keys, want)
	}
}
