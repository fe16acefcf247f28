package config

import (
	"errors"
	"os"
	"strings"
)

func githubKeys() []key {
	of := func(name string, typ valueType, def, doc string, field func(*GitHub) any, also ...spelling) key {
		return key{path: "github." + name, typ: typ, def: def, doc: doc, also: also, field: func(c *Config, _ *Cluster) any { return field(&c.GitHub) }}
	}
	return []key{
		of("base_url", textType(checkGitHubURL), "https://api.github.com", "API of GitHub; of GitHub Enterprise it is `https://HOST/api/v3`", func(g *GitHub) any { return &g.BaseURL }),
		of("app_id", countType(0, 1<<31-1), "0", "id of a GitHub App, which reads pull requests and writes on them; 0 means none", func(g *GitHub) any { return &g.AppID }),
		of("private_key_file", filePath(), "", "file with the private key of the App, in PEM", func(g *GitHub) any { return &g.KeyFile }),
		of("token", secretType(checkAPIKey), "", "personal access token in the place of an App; it cannot write check runs", func(g *GitHub) any { return &g.Token }),
		of("webhook_secret", secretType(checkAPIKey), "", "secret that GitHub signs its webhooks with; without it they are refused", func(g *GitHub) any { return &g.WebhookSecret }, envSpelling("GITHUB_WEBHOOK_SECRET")),
		of("drafts", booleanType(), "false", "look at drafts of pull requests, too", func(g *GitHub) any { return &g.Drafts }),
		of("mention", textType(checkMention), "nightcrier", "name by which comments speak to it: `@NAME question`", func(g *GitHub) any { return &g.Mention }),
	}
}

func checkGitHubURL(s string) error {
	if !strings.HasPrefix(s, "https://") && !strings.HasPrefix(s, "http://") {
		return errors.New("is no address of an API: write https://api.github.com, or https://HOST/api/v3 for GitHub Enterprise")
	}
	return checkEncrypted(s, "the credential")
}

func checkMention(s string) error {
	if s == "" || len(s) > 39 || strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}) {
		return errors.New("is no name of an account: use up to 39 letters, digits and '-', without '@'")
	}
	return nil
}

// checkGitHub holds the keys of GitHub against each other.
func (l *loader) checkGitHub(cfg *Config) {
	g := &cfg.GitHub
	switch {
	case g.Token.IsSet() && g.AppID != 0:
		l.problemAt(cfg, "github.token", errors.New("is set beside github.app_id: keep one"))
	case g.AppID != 0 && g.KeyFile == "":
		l.addNeed(cfg, "github.app_id", "needs github.private_key_file: download a key from the settings of the App")
	case g.AppID == 0 && g.KeyFile != "":
		l.addNeed(cfg, "github.private_key_file", "needs github.app_id: it stands in the settings of the App")
	case g.KeyFile != "":
		if info, err := os.Stat(g.KeyFile); err != nil || !info.Mode().IsRegular() {
			l.problemAt(cfg, "github.private_key_file", errors.New("is no file that can be read"))
		}
	}
	if g.WebhookSecret.IsSet() && len(g.WebhookSecret.Reveal()) < minToken {
		l.addWarning(cfg.origins["github.webhook_secret"], "github.webhook_secret", "is short: take a longer one, such as openssl rand -hex 32 makes")
	}
	if g.WebhookSecret.IsSet() && cfg.Listen == "" && cfg.WebhookListen == "" {
		l.addNeed(cfg, "github.webhook_secret", "nobody can send to it: set webhook_listen")
	}
}
