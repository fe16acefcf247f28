package config

import (
	"slices"
	"strings"
	"testing"
)

// Who may decide is a person with a token of his own.
func TestApprovers(t *testing.T) {
	const one, other = "a-token-of-one-person", "a-token-of-another-one"
	both := []string{"A=" + one, "B=" + other}
	cfg, warnings := mustLoad(t, "approvals: {approvers: {bob: B, ann: A}}", both...)
	if len(warnings) > 0 || !slices.Equal(cfg.Approvals.Names(), []string{"ann", "bob"}) || cfg.Approvals.Tokens["ann"].Reveal() != one || !slices.Contains(cfg.Secrets(), other) {
		t.Errorf("%v, %v", cfg.Approvals.Approvers, warnings)
	}
	if _, warnings := mustLoad(t, "approvals: {approvers: {bob: B}}"); len(warnings) != 1 || !strings.Contains(warnings[0].Text, "bob may decide nothing") {
		t.Errorf("without a token: %v", warnings)
	}
	for yaml, want := range map[string]string{
		"approvals: {approvers: {ann: A, bob: A}}":             "have the same token",
		"approvals: {approvers: {'two words': A}}":             "is no name of a person",
		"approvals: {approvers: {ann: a-token-of-one-person}}": "not the name of an environment variable",
		"approvals: {approvers: {ann: A}, needed: 2}":          "nobody could agree to anything",
	} {
		if _, _, err := load(t, yaml, both, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", yaml, err)
		}
	}
}
