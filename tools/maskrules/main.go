// Command maskrules writes internal/mask/gitleaks.go: the patterns of tokens that
// give themselves away, from the rules of a pinned version of gitleaks. It is run
// by hand when that version is raised:
//
//	go -C tools/maskrules run . > internal/mask/gitleaks.go
package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/format"
	"log"
	"os"
	"regexp/syntax"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"github.com/zricethezav/gitleaks/v8/config"
)

// left are rules that are not taken, and why.
var left = map[string]string{
	"generic-api-key":                 ownKeys,
	"hashicorp-tf-password":           ownKeys,
	"freemius-secret-key":             ownKeys,
	"nuget-config-password":           ownKeys,
	"curl-auth-header":                ownKeys,
	"curl-auth-user":                  "a command line, no token",
	"kubernetes-secret-yaml":          "Secrets are read as objects",
	"private-key":                     ownTokens,
	"jwt":                             ownTokens,
	"jwt-base64":                      "slow, and rare",
	"sidekiq-sensitive-url":           "the password of any URL is taken",
	"slack-webhook-url":               ownTokens,
	"sourcegraph-access-token":        "takes any commit id",
	"facebook-access-token":           "takes ids",
	"airtable-personnal-access-token": "its keyword is the vendor's name, no part of the token",
	"age-secret-key":                  ownTokens,
	"anthropic-admin-api-key":         ownTokens,
	"anthropic-api-key":               ownTokens,
	"aws-access-token":                ownTokens,
	"gcp-api-key":                     ownTokens,
	"github-app-token":                ownTokens,
	"github-fine-grained-pat":         ownTokens,
	"github-oauth":                    ownTokens,
	"github-pat":                      ownTokens,
	"github-refresh-token":            ownTokens,
	"gitlab-pat":                      ownTokens,
	"gitlab-pat-routable":             ownTokens,
	"npm-access-token":                ownTokens,
	"slack-app-token":                 ownTokens,
	"slack-bot-token":                 ownTokens,
	"slack-config-access-token":       ownTokens,
	"slack-config-refresh-token":      ownTokens,
	"slack-legacy-bot-token":          ownTokens,
	"slack-legacy-token":              ownTokens,
	"slack-legacy-workspace-token":    ownTokens,
	"slack-user-token":                ownTokens,
	"stripe-access-token":             ownTokens,
	"vault-service-token":             ownTokens,
}

const (
	ownKeys   = "package mask knows keys, and how Kubernetes writes them"
	ownTokens = "package mask takes these and shorter ones"
)

// inside says how far behind the beginning of a match its hint stands, where it
// is not the beginning.
var inside = map[string]int{"azure-ad-client-secret": 5, "hashicorp-tf-api-token": 15, "maxmind-license-key": 36}

// near begins the rules that look for a value beside a vendor's name.
const near = `[\w.-]{0,50}?`

// end is how most rules want a token to end; what Kubernetes quotes twice ends in
// a backslash, and what people write in a full stop.
const (
	end      = "(?:[\\x60'\"\\s;]|\\\\[nr]|$)"
	endOfAny = `(?:[^\w-]|$)`

	endOfBase64 = `(?:[^a-zA-Z0-9+/]|\z)`

	endOfAzure      = "(?:$|[\\\\'\"\\x60\\s<),])"
	endOfAzureOfAny = `(?:$|[^\w~-])`
)

type row struct {
	id, hint string
	fold     bool
	back     int
	expr     string
	entropy  float64
}

func main() {
	log.SetFlags(0)
	rows, err := rules()
	if err != nil {
		log.Fatal(err)
	}
	out, err := render(rows)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := os.Stdout.Write(out); err != nil {
		log.Fatal(err)
	}
}

func rules() ([]row, error) {
	v := viper.New()
	v.SetConfigType("toml")
	if err := v.ReadConfig(strings.NewReader(config.DefaultConfig)); err != nil {
		return nil, err
	}
	var read config.ViperConfig
	if err := v.Unmarshal(&read); err != nil {
		return nil, err
	}
	cfg, err := read.Translate()
	if err != nil {
		return nil, err
	}
	var rows []row
	for id, r := range cfg.Rules {
		if left[id] != "" || r.Regex == nil || strings.Contains(r.Regex.String(), near) {
			continue
		}
		some, err := rowsOf(id, r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		rows = append(rows, some...)
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.hint, b.hint)) })
	return rows, nil
}

// rowsOf makes a row for each way in which the token may begin.
func rowsOf(id string, r config.Rule) ([]row, error) {
	expr := strings.ReplaceAll(r.Regex.String(), end, endOfAny)
	expr = strings.ReplaceAll(expr, endOfAzure, endOfAzureOfAny)
	if body, ok := strings.CutSuffix(expr, endOfBase64); ok {
		expr = "(" + body + ")" + endOfBase64 // what ends the token is no part of it
	}
	expr = strings.ReplaceAll(expr, "([a-z0-9]{4}-)", "(?:[a-z0-9]{4}-)") // the one group that is not the secret
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, err
	}
	base := row{id: id, expr: expr, entropy: r.Entropy}
	if text, fold := start(tree); len(text) > 1 {
		base.hint, base.fold = text, fold
		if fold {
			base.hint = strings.ToLower(text)
		}
		return []row{base}, nil
	}
	var rows []row
	for _, word := range r.Keywords {
		one := base
		one.hint, one.fold, one.back = strings.ToLower(word), true, inside[id]
		rows = append(rows, one)
	}
	return rows, nil
}

// start returns the text that every match begins with.
func start(re *syntax.Regexp) (string, bool) {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune), re.Flags&syntax.FoldCase != 0
	case syntax.OpCapture:
		return start(re.Sub[0])
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if sub.Op != syntax.OpWordBoundary && sub.Op != syntax.OpEmptyMatch {
				return start(sub)
			}
		}
	}
	return "", false
}

func render(rows []row) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "// Code generated by tools/maskrules; DO NOT EDIT.\n\npackage mask\n\n")
	fmt.Fprintf(&b, "// patterns are from the rules of gitleaks %s, MIT License, see gitleaks.LICENSE.\nvar patterns = []pattern{\n", version())
	for _, r := range rows {
		quoted := "`" + r.expr + "`"
		if strings.Contains(r.expr, "`") {
			quoted = fmt.Sprintf("%q", r.expr)
		}
		fmt.Fprintf(&b, "{id: %q, hint: %q, fold: %v, back: %d, expr: %s, entropy: %v},\n", r.id, r.hint, r.fold, r.back, quoted, r.entropy)
	}
	fmt.Fprintf(&b, "}\n")
	return format.Source(b.Bytes())
}

// version is that of the rules.
func version() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == "github.com/zricethezav/gitleaks/v8" {
			return m.Version
		}
	}
	return "(unknown)"
}
