package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	texts "nightcrier.dev/nightcrier/internal/text"
	"nightcrier.dev/nightcrier/internal/text/expr"
)

// Alertmanager is how a cluster's alerts arrive.
type Alertmanager struct {
	// Given: alerts are expected. An empty mapping says so too, where this machine posts
	// them or the usual labels do.
	Given bool
	// TokenEnv names the environment variable that Token was read from. When it is
	// set and Token is not, nobody may post.
	TokenEnv string
	Token    Secret
	// Labels say which label of an alert names what, by the usual label.
	Labels map[string]string
}

// Webhook is an address that others post faults to, and what their payloads mean:
// all but name and token are expressions.
type Webhook struct {
	Name     string
	TokenEnv string
	Token    Secret

	Cluster, Items, When    string
	Kind, Namespace, Object string
	Type, Severity, Text    string
	Key, Cleared            string
}

// hookPrefix starts the path of every key that a webhook has of its own. Such keys
// stand in a file only.
const hookPrefix = "webhooks[]."

func (k *key) ofHook() bool { return strings.HasPrefix(k.path, hookPrefix) }

// alertRoles are what the labels of an alert can name.
var alertRoles = []string{"namespace", "container", "deployment", "statefulset", "daemonset", "cronjob", "job_name", "horizontalpodautoscaler",
	"poddisruptionbudget", "resourcequota", "persistentvolumeclaim", "persistentvolume", "replicaset", "ingress", "pod", "node", "service"}

// alertPrefix starts the path of every key of Alertmanager.
const alertPrefix = clusterPrefix + "alertmanager."

func alertKeys() []key {
	return []key{
		{path: alertPrefix + "token_env", typ: textType(checkVariableName),
			doc:   "name of the environment variable that holds the token of the cluster's Alertmanager; unset means that only this machine may post alerts",
			field: func(_ *Config, c *Cluster) any { return &c.Alertmanager.TokenEnv }},
		{path: alertPrefix + "labels", typ: rolesType(),
			doc:   "names of labels in its alerts that differ from the usual ones, such as `pod: k8s_pod`",
			field: func(_ *Config, c *Cluster) any { return &c.Alertmanager.Labels }},
	}
}

func hookKeys() []key {
	hook := func(name string, typ valueType, doc string, field func(*Webhook) any) key {
		return key{path: hookPrefix + name, typ: typ, doc: doc, hook: field}
	}
	return []key{
		{path: "webhook_listen", typ: addressType(checkAddress),
			doc:   "extra address, open to other machines, that serves only webhooks that have a token",
			field: func(c *Config, _ *Cluster) any { return &c.WebhookListen }},
		hook("name", textType(checkHookName), "unique name, the last part of the address `/api/v1/webhooks/NAME`", func(w *Webhook) any { return &w.Name }),
		hook("token_env", textType(checkVariableName), "name of the environment variable that holds the sender's token; unset means that only this machine may post", func(w *Webhook) any { return &w.TokenEnv }),
		hook("cluster", expressionType(expr.Text), "name of the cluster; required", func(w *Webhook) any { return &w.Cluster }),
		hook("items", expressionType(expr.List), "what a payload reports; the other expressions see each of it as `item`; unset means `[body]`", func(w *Webhook) any { return &w.Items }),
		hook("when", expressionType(expr.Bool), "whether an item reports a fault or the end of one; unset means always", func(w *Webhook) any { return &w.When }),
		hook("object.kind", expressionType(expr.Text), "kind of the faulty object; unset means the alert itself", func(w *Webhook) any { return &w.Kind }),
		hook("object.namespace", expressionType(expr.Text), "its namespace", func(w *Webhook) any { return &w.Namespace }),
		hook("object.name", expressionType(expr.Text), "its name", func(w *Webhook) any { return &w.Object }),
		hook("type", expressionType(expr.Text), "fault type, in one word; unset means the webhook's name", func(w *Webhook) any { return &w.Type }),
		hook("severity", expressionType(expr.Text), "severity, in any common word; unset means that of the type", func(w *Webhook) any { return &w.Severity }),
		hook("text", expressionType(expr.Text), "the sender's description", func(w *Webhook) any { return &w.Text }),
		hook("key", expressionType(expr.Text), "identifies one occurrence: payloads with the same key are one report; unset means that only identical payloads are", func(w *Webhook) any { return &w.Key }),
		hook("cleared", expressionType(expr.Bool), "whether the fault is over; unset means never", func(w *Webhook) any { return &w.Cleared }),
	}
}

// expressionType is one in CEL, which may have several lines.
func expressionType(yields expr.Kind) valueType {
	return valueType{word: "expression (" + yields.String() + ")", schema: ofType("string"), parse: parseOne(func(s string) (any, error) {
		switch {
		case len(s) > maxText:
			return nil, fmt.Errorf("is longer than %d bytes", maxText)
		case strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }):
			return nil, errors.New("contains a control character")
		}
		_, err := expr.Payload.Compile(s, yields)
		return s, err
	})}
}

var labelPattern = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// rolesType is a mapping from what a label names to the label.
func rolesType() valueType {
	t := labelsType()
	inner := t.parse
	t.parse = func(words []string) (any, error) {
		value, err := inner(words)
		pairs, _ := value.(map[string]string)
		for role, label := range pairs {
			switch {
			case !slices.Contains(alertRoles, role):
				return nil, fmt.Errorf("%s is not what a label can name%s: known are %s", quoteValue(role), texts.SuggestName(": did you mean %s?", role, alertRoles), strings.Join(alertRoles, ", "))
			case !labelPattern.MatchString(label):
				return nil, fmt.Errorf("%s is not the name of a label", quoteValue(label))
			}
		}
		return value, err
	}
	return t
}

// reservedHooks are the parts of the address that Alertmanagers post below, and GitHub to.
var reservedHooks = []string{"alertmanager", "github"}

func checkHookName(s string) error {
	if !clusterNamePattern.MatchString(s) || slices.Contains(reservedHooks, s) {
		return fmt.Errorf("%s is not a name for a webhook: use up to 63 lower-case letters, digits, '-' and '.', but not %s", quoteValue(s), texts.JoinWords(reservedHooks, "or"))
	}
	return nil
}

// checkHooks looks at what all webhooks share, and reads their tokens.
func (l *loader) checkHooks(cfg *Config) {
	names := map[string]int{}
	for i := range cfg.Webhooks {
		w, at := &cfg.Webhooks[i], fmt.Sprintf("webhooks[%d]", i)
		l.checkName(names, "webhooks", w.Name, i, l.hookPlaces[i], "it is the last part of the webhook's address")
		if w.Cluster == "" && !l.hasProblem(at+".cluster") {
			l.addProblem(l.hookPlaces[i], at+".cluster", errors.New("is missing: an expression that yields the name of a cluster, such as '\"prod\"'"))
		}
		w.Token = l.readToken(cfg, at+".token_env", w.TokenEnv, "nobody may post")
	}
	tokens := slices.ContainsFunc(cfg.Webhooks, func(w Webhook) bool { return w.TokenEnv != "" })
	for i := range cfg.Clusters {
		a := &cfg.Clusters[i].Alertmanager
		a.Given = l.given[fmt.Sprintf("clusters[%d].alertmanager", i)] || a.TokenEnv != "" || len(a.Labels) > 0
		a.Token = l.readToken(cfg, fmt.Sprintf("clusters[%d].alertmanager.token_env", i), a.TokenEnv, "nobody may post")
		tokens = tokens || a.TokenEnv != ""
	}
	if cfg.Listen == "" && cfg.WebhookListen == "" {
		l.warnUnreached(cfg)
	}
	if cfg.WebhookListen != "" && !tokens && !cfg.GitHub.WebhookSecret.IsSet() {
		l.addNeed(cfg, "webhook_listen", "serves nothing: no webhook has a token_env, and github.webhook_secret is not set")
	}
	for _, other := range []string{cfg.Listen, cfg.HealthListen} {
		if cfg.WebhookListen != "" && cfg.WebhookListen == other && !strings.HasSuffix(other, ":0") {
			l.problemAt(cfg, "webhook_listen", errors.New("is the same address as listen or health_listen: choose another port"))
		}
	}
}

// warnUnreached names the webhooks that no sender reaches.
func (l *loader) warnUnreached(cfg *Config) {
	const why = "nobody can send to it: set listen for senders on this machine, or webhook_listen and a token for others"
	for i := range cfg.Webhooks {
		l.addNeed(cfg, fmt.Sprintf("webhooks[%d].name", i), why)
	}
	for i, c := range cfg.Clusters {
		if at := fmt.Sprintf("clusters[%d].alertmanager.token_env", i); c.Alertmanager.TokenEnv != "" {
			l.addNeed(cfg, at, why)
		}
	}
}

// readToken reads the token that a variable holds. Where it holds none, nobody is to
// be let in, as lacking says: a token was asked for.
func (l *loader) readToken(cfg *Config, at, variable, lacking string) Secret {
	if variable == "" {
		return Secret{}
	}
	value := l.environ[variable]
	switch err := checkAPIKey(value); {
	case err != nil:
		l.problemAt(cfg, at, fmt.Errorf("the value of %s %w", variable, err))
	case value == "":
		l.addNeed(cfg, at, fmt.Sprintf("the variable %s is not set: %s", variable, lacking))
	case len(value) < minToken:
		l.addWarning(cfg.origins[at], at, fmt.Sprintf("the token in %s has less than %d characters: take a longer one, such as openssl rand -hex 32 makes", variable, minToken))
	}
	return NewSecret(value)
}

// minToken is how many characters a token should have.
const minToken = 16
