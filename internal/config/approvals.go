package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"
)

// Approvals say who decides what runs ask people.
type Approvals struct {
	// Approvers names of each the environment variable that Tokens were read from.
	Approvers map[string]string
	Tokens    map[string]Secret
	// Needed is how many have to agree, and Expires until when; 0 is for ever.
	Needed  int
	Expires time.Duration
}

// Names are those who may decide, sorted.
func (a Approvals) Names() []string { return slices.Sorted(maps.Keys(a.Approvers)) }

var approverPattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._@-]{0,63}$`)

func approvalKeys() []key {
	return []key{
		{path: "approvals.approvers", typ: approversType(),
			doc:   "who may decide what runs ask people: names, and of each the environment variable that holds the token by which it proves who it is",
			field: func(c *Config, _ *Cluster) any { return &c.Approvals.Approvers }},
		{path: "approvals.needed", typ: countType(1, 20), def: "1",
			doc:   "how many of them have to agree where a step does not say",
			field: func(c *Config, _ *Cluster) any { return &c.Approvals.Needed }},
		{path: "approvals.expires", typ: durationType(0, 90*day), def: "0",
			doc:   "until when it can be decided; then the run goes on as if it was refused. 0 waits for ever",
			field: func(c *Config, _ *Cluster) any { return &c.Approvals.Expires }},
	}
}

// approversType is a mapping of names to variables.
func approversType() valueType {
	t := labelsType()
	inner := t.parse
	t.parse = func(words []string) (any, error) {
		value, err := inner(words)
		if err != nil {
			return nil, err
		}
		pairs := value.(map[string]string)
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			if !approverPattern.MatchString(name) {
				return nil, fmt.Errorf("%s is no name of a person: use up to 64 letters, digits, '.', '_', '@' and '-'", quoteValue(name))
			}
			if err := checkVariableName(pairs[name]); err != nil {
				return nil, fmt.Errorf("of %s: %w", name, err)
			}
		}
		return pairs, nil
	}
	return t
}

// checkApprovals reads the tokens of those who may decide.
func (l *loader) checkApprovals(cfg *Config) {
	const at = "approvals.approvers"
	a := &cfg.Approvals
	if len(a.Approvers) == 0 {
		return
	}
	a.Tokens = map[string]Secret{}
	whose := map[string]string{}
	for _, name := range a.Names() {
		token := l.readToken(cfg, at, a.Approvers[name], name+" may decide nothing")
		if other := whose[token.Reveal()]; other != "" && token.IsSet() {
			l.problemAt(cfg, at, fmt.Errorf("%s and %s have the same token: give each one of their own", other, name))
		}
		whose[token.Reveal()], a.Tokens[name] = name, token
	}
	if a.Needed > len(a.Approvers) {
		l.problemAt(cfg, "approvals.needed", errors.New("is more than there are in approvals.approvers: nobody could agree to anything"))
	}
}
