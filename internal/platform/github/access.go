package github

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
)

// access is by what a client is let in.
type access interface {
	// tokenFor returns what is shown for a repository; signed is that of the App itself.
	tokenFor(ctx context.Context, repository string, signed bool) (string, error)
	// forget ends the use of a token that was not accepted, and renews reports whether there is
	// another then.
	forget(repository, token string)
	renews() bool
	// login is as whom the client writes.
	login(ctx context.Context) (string, error)
	// appID is that of an App, 0 for a token.
	appID() int64
}

// tokenAccess is by one token for everything.
type tokenAccess struct {
	client *Client
	token  string

	mu   sync.Mutex
	name string
}

func (a *tokenAccess) tokenFor(context.Context, string, bool) (string, error) { return a.token, nil }
func (a *tokenAccess) forget(string, string)                                  {}
func (a *tokenAccess) renews() bool                                           { return false }
func (a *tokenAccess) appID() int64                                           { return 0 }

func (a *tokenAccess) login(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.name != "" {
		return a.name, nil
	}
	var who struct{ Login string }
	if _, err := a.client.get(ctx, "", "/user", nil, &who); err != nil {
		return "", err
	}
	a.name = who.Login
	return a.name, nil
}

// appAccess is by an App: its key signs, and each repository has a token of its own, which may do
// nothing elsewhere and ends after an hour.
type appAccess struct {
	client *Client
	id     int64
	key    *rsa.PrivateKey

	mu     sync.Mutex
	issued map[string]issued
	slug   string
}

type issued struct {
	token string
	until time.Time
}

// renewBefore is how long before its end a token is no longer used.
const renewBefore = 5 * time.Minute

func (a *appAccess) renews() bool { return true }
func (a *appAccess) appID() int64 { return a.id }

func (a *appAccess) tokenFor(ctx context.Context, repository string, signed bool) (string, error) {
	if signed {
		return a.sign()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if have, ok := a.issued[repository]; ok && a.client.now().Before(have.until) {
		return have.token, nil
	}
	r, err := a.client.do(ctx, call{method: http.MethodGet, path: "/repos/" + repository + "/installation", signed: true})
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.CodeOf(err), "the App is not installed in %s: %w", repository, err)
	}
	var installation struct{ ID int64 }
	if err := decode(r.body, "installation", &installation); err != nil {
		return "", err
	}
	_, name, _ := strings.Cut(repository, "/")
	r, err = a.client.do(ctx, call{method: http.MethodPost, path: "/app/installations/" + strconv.FormatInt(installation.ID, 10) + "/access_tokens", signed: true,
		in: map[string]any{"repositories": []string{name}}})
	if err != nil {
		return "", err
	}
	var out struct {
		Token     string
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := decode(r.body, "access_tokens", &out); err != nil {
		return "", err
	}
	a.issued[repository] = issued{token: out.Token, until: out.ExpiresAt.Add(-renewBefore)}
	return out.Token, nil
}

func (a *appAccess) forget(repository, token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.issued[repository].token == token {
		delete(a.issued, repository)
	}
}

func (a *appAccess) login(ctx context.Context) (string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slug != "" {
		return a.slug + "[bot]", nil
	}
	r, err := a.client.do(ctx, call{method: http.MethodGet, path: "/app", signed: true})
	if err != nil {
		return "", err
	}
	var app struct{ Slug string }
	if err := decode(r.body, "/app", &app); err != nil {
		return "", err
	}
	a.slug = app.Slug
	return a.slug + "[bot]", nil
}

// sign makes what proves that we are the App: a JSON web token, for nine minutes, begun a minute
// ago in case our clock is ahead.
func (a *appAccess) sign() (string, error) {
	now := a.client.now()
	claims, err := json.Marshal(map[string]any{"iss": strconv.FormatInt(a.id, 10), "iat": now.Add(-time.Minute).Unix(), "exp": now.Add(9 * time.Minute).Unix()})
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Internal, "sign for GitHub: %w", err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", nightcrier.Errorf(nightcrier.Invalid, "github.private_key_file cannot sign: %w", err)
	}
	return text + "." + encode(signature), nil
}

// ParseKey reads the private key of an App.
func ParseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "github.private_key_file holds no key in PEM: download one from the settings of the App")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, ok := other.(*rsa.PrivateKey); err == nil && ok {
		return key, nil
	}
	return nil, nightcrier.Errorf(nightcrier.Invalid, "github.private_key_file holds no RSA key: download one from the settings of the App")
}
