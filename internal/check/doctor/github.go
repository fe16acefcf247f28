package doctor

import (
	"context"
	"os"

	"nightcrier.dev/nightcrier/internal/config"
	"nightcrier.dev/nightcrier/internal/platform/github"
)

// checkGitHub asks GitHub as whom the credential writes.
func checkGitHub(ctx context.Context, cfg *config.Config) Check {
	c, g := Check{Code: CheckGitHub, Name: "pull requests"}, &cfg.GitHub
	if !g.IsSet() {
		return c.asOK("not configured: pull requests are not read")
	}
	o := github.Options{BaseURL: g.BaseURL, Token: g.Token.Reveal(), AppID: int64(g.AppID)}
	if g.AppID != 0 {
		key, err := os.ReadFile(g.KeyFile)
		if err != nil {
			return c.asFailed(err, "github.private_key_file is the key that is downloaded from the settings of the App")
		}
		o.PrivateKey = key
	}
	client, err := github.New(o)
	if err != nil {
		return c.asFailed(err, "see docs/github.md")
	}
	ctx, cancel := context.WithTimeout(ctx, doctorTimeout)
	defer cancel()
	login, err := client.Login(ctx)
	if err != nil {
		return c.asFailed(err, "look at github.base_url, and at the App or token at GitHub")
	}
	if !g.WebhookSecret.IsSet() {
		return c.asOK("writes as " + login + "; without github.webhook_secret no webhook is taken")
	}
	return c.asOK("writes as " + login)
}
