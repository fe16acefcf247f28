package mcp

import (
	"net/url"
	"regexp"
	"strings"

	"nightcrier.dev/nightcrier/internal/text"
)

// maxErrorText bounds, in bytes, the error texts that a server can influence.
const maxErrorText = 500

// redactor turns errors into texts that may be shown: no credential, no session
// id, no control character, of bounded length.
type redactor struct {
	endpoint string // what may be shown of the endpoint
	url      *url.URL
	secrets  []string // parts of the endpoint
	key      func() string
}

// newRedactor never fails: a broken endpoint shows as such when it is used.
func newRedactor(endpoint string, key func() string) *redactor {
	r := &redactor{endpoint: "(unreadable URL)", key: key}
	u, err := url.Parse(endpoint)
	if err != nil {
		r.secrets = []string{endpoint}
		return r
	}
	r.url = u
	r.endpoint = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	r.secrets = append(r.secrets, u.RawQuery, u.Fragment)
	if u.User != nil {
		password, _ := u.User.Password()
		r.secrets = append(r.secrets, u.User.String(), u.User.Username(), password, url.QueryEscape(password))
	}
	for _, values := range u.Query() {
		r.secrets = append(r.secrets, values...)
	}
	return r
}

var sessionIDs = regexp.MustCompile(` ?\(session ID: [^)]*\)`)

func (r *redactor) redactError(err error) string {
	if err == nil {
		return ""
	}
	s := err.Error()
	for _, secret := range r.secrets {
		s = hideSecret(s, secret)
	}
	if r.key != nil {
		s = hideSecret(s, r.key())
	}
	return text.CutLine(sessionIDs.ReplaceAllString(s, ""), maxErrorText)
}

// hideSecret replaces a secret. A very short one would tear words apart and is no
// secret.
func hideSecret(s, secret string) string {
	if len(secret) < 4 {
		return s
	}
	return strings.ReplaceAll(s, secret, "***")
}
