package config

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"nightcrier.dev/nightcrier/internal/guard/data"
)

// Sources are where a cluster's metrics and logs are asked for.
type Sources struct {
	Prometheus, Loki Endpoint
}

// Endpoint is one such system. Its URL is empty where there is none.
type Endpoint struct {
	URL string
	// TokenEnv and PasswordEnv name the environment variables that Token and Password
	// were read from.
	TokenEnv, PasswordEnv string
	Token, Password       Secret
	Username              string
	// Tenant is the value of the header X-Scope-OrgID, "" for no such header.
	Tenant string
	// NamespaceLabel is the label that holds a Pod's namespace, "" for the usual one.
	NamespaceLabel string
}

// sourceKeys are the same for either system.
func sourceKeys() []key {
	var all []key
	for _, s := range []struct {
		path, what string
		of         func(*Cluster) *Endpoint
	}{
		{"clusters[].sources.prometheus.", "Prometheus, or another server with its query API, that has the metrics of this cluster", func(c *Cluster) *Endpoint { return &c.Sources.Prometheus }},
		{"clusters[].sources.loki.", "Loki that has the logs of this cluster", func(c *Cluster) *Endpoint { return &c.Sources.Loki }},
	} {
		system := strings.Split(s.path, ".")[2]
		at := func(name string, typ valueType, doc string, field func(*Endpoint) any) {
			all = append(all, key{path: s.path + name, typ: typ, doc: doc, field: func(_ *Config, c *Cluster) any { return field(s.of(c)) }})
		}
		at("url", textType(checkSourceURL), "base URL of the "+s.what+"; built-in rules query it, and agents may", func(e *Endpoint) any { return &e.URL })
		at("token_env", textType(checkVariableName), "name of the environment variable that holds a bearer token for "+system, func(e *Endpoint) any { return &e.TokenEnv })
		at("username", textType(), "user name for basic authentication at "+system, func(e *Endpoint) any { return &e.Username })
		at("password_env", textType(checkVariableName), "name of the environment variable that holds the password of username", func(e *Endpoint) any { return &e.PasswordEnv })
		at("tenant", textType(checkTenant), "value of the header `X-Scope-OrgID`, for a "+system+" with several tenants; unset sends none", func(e *Endpoint) any { return &e.Tenant })
		at("namespace_label", textType(checkLabel), "label that holds a Pod's namespace, used to enforce `clusters[].namespaces`; unset means namespace", func(e *Endpoint) any { return &e.NamespaceLabel })
	}
	return all
}

// checkSourceURL is checkEndpoint for a base URL, behind which we put a path.
func checkSourceURL(s string) error {
	if u, err := url.Parse(s); err == nil && u.User != nil {
		return errors.New("contains a user name or password: set username, and name the variable that holds the password in password_env")
	}
	if err := checkEndpoint(s); err != nil {
		return err
	}
	if u, err := url.Parse(s); err != nil || u.RawQuery != "" {
		return errors.New("contains a ?query: give the base URL alone, such as http://prometheus:9090")
	}
	return nil
}

func checkTenant(s string) error {
	if len(s) > 150 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return errors.New("is not the name of a tenant: up to 150 characters of ASCII, without spaces")
	}
	return nil
}

func checkLabel(s string) error {
	if !labelPattern.MatchString(s) {
		return fmt.Errorf("%s is not the name of a label", quoteValue(s))
	}
	return nil
}

// checkSources reads the credentials of a cluster's sources.
func (l *loader) checkSources(cfg *Config, c *Cluster, at string) {
	l.checkSourceEndpoint(cfg, &c.Sources.Prometheus, at+".sources.prometheus")
	l.checkSourceEndpoint(cfg, &c.Sources.Loki, at+".sources.loki")
}

func (l *loader) checkSourceEndpoint(cfg *Config, e *Endpoint, at string) {
	if e.URL == "" {
		for _, set := range [][2]string{{"token_env", e.TokenEnv}, {"username", e.Username}, {"password_env", e.PasswordEnv}, {"tenant", e.Tenant}} {
			if set[1] != "" && !l.hasProblem(at+".url") {
				l.addNeed(cfg, at+"."+set[0], "has no effect without "+at+".url")
			}
		}
		return
	}
	e.Token = l.sourceSecret(cfg, e.TokenEnv, at+".token_env")
	e.Password = l.sourceSecret(cfg, e.PasswordEnv, at+".password_env")
	switch {
	case e.TokenEnv != "" && (e.Username != "" || e.PasswordEnv != ""):
		l.problemAt(cfg, at+".token_env", errors.New("is given beside a user name or password: keep one of the two ways to log in"))
	case (e.Username == "") != (e.PasswordEnv == ""):
		l.problemAt(cfg, at+".url", errors.New("has a user name or a password_env alone: basic authentication needs both"))
	}
	if err := checkEncrypted(e.URL, "the credential"); err != nil && (e.TokenEnv != "" || e.PasswordEnv != "") {
		l.addWarning(cfg.origins[at+".url"], at+".url", "sends the credential unencrypted: use https where the way there is not trusted")
	}
}

func (l *loader) sourceSecret(cfg *Config, variable, at string) Secret {
	if variable == "" {
		return Secret{}
	}
	value := l.environ[variable]
	if err := checkAPIKey(value); err != nil {
		l.problemAt(cfg, at, fmt.Errorf("the value of %s %w", variable, err))
	} else if value == "" {
		l.addNeed(cfg, at, fmt.Sprintf("the variable %s is not set: nothing is sent for it", variable))
	}
	return NewSecret(value)
}

// DataAccess is what may be asked of the cluster's metrics and logs, nil for nothing.
func (c *Cluster) DataAccess() *data.Access {
	a := &data.Access{Prometheus: c.Sources.Prometheus.guarded(), Loki: c.Sources.Loki.guarded(), Namespaces: c.Namespaces}
	if a.Prometheus == nil && a.Loki == nil {
		return nil
	}
	return a
}

// guarded is the endpoint as its guard takes it, nil where none is set.
func (e *Endpoint) guarded() *data.Endpoint {
	if e.URL == "" {
		return nil
	}
	return &data.Endpoint{
		URL: e.URL, Token: e.Token.Reveal(), Username: e.Username, Password: e.Password.Reveal(), Tenant: e.Tenant, NamespaceLabel: e.NamespaceLabel,
	}
}
