package ui

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"nightcrier.dev/nightcrier"
)

// Access says who may see the page.
type Access struct {
	// Key signs sessions and links; who has it is let in.
	Key []byte
	// URL is where people reach the page through a proxy that speaks TLS, such as
	// https://nightcrier.example.com; "" leaves it to this machine.
	URL string
	// Tokens let their owners in.
	Tokens []Token
}

// Token is what a person logs in with: its name, and the SHA-256 of what he or she types.
type Token struct {
	Name   string
	SHA256 string
}

// How long things are good for.
const (
	linkTime    = 15 * time.Minute
	sessionTime = 12 * time.Hour
	// triesInRow is how many logins may fail one after the other before lockTime passes.
	triesInRow = 5
	lockTime   = 5 * time.Minute
)

// KeyFrom derives the key of a page from one that the server has and keeps.
func KeyFrom(secret []byte) []byte { return sign(secret, "the page's sessions and links") }

func sign(key []byte, what string) []byte {
	m := hmac.New(sha256.New, key)
	m.Write([]byte(what))
	return m.Sum(nil)
}

// LoginLink makes a link that logs one browser in, for whoever has the key.
func LoginLink(key []byte, origin string, now time.Time) string { return loginLink(key, origin, now) }

func loginLink(key []byte, origin string, now time.Time) string {
	said := strconv.FormatInt(now.Add(linkTime).Unix(), 36) + "." + rand.Text()
	code := said + "." + base64.RawURLEncoding.EncodeToString(sign(key, "link "+said)[:18])
	return strings.TrimRight(origin, "/") + "/login?code=" + code
}

// session is one browser that is logged in. It is in the browser's cookie, signed, so that a
// server that was restarted at the worst moment knows it still.
type session struct {
	Name string `json:"n"`
	ID   string `json:"i"`
	Ends int64  `json:"e"`
}

// door decides who comes in.
type door struct {
	Access
	now    func() time.Time
	secure bool   // reached by TLS
	host   string // of URL

	mu    sync.Mutex       // guards what follows
	used  map[string]int64 // codes of links, until they end
	fails map[string]failed
}

// failed is how often an address failed to log in, and since when it is locked out.
type failed struct {
	tries int
	at    time.Time
}

func newDoor(a Access, now func() time.Time) *door {
	d := &door{Access: a, now: now, used: map[string]int64{}, fails: map[string]failed{}}
	if u, err := url.Parse(a.URL); err == nil && a.URL != "" {
		d.host, d.secure = u.Host, u.Scheme == "https"
	}
	return d
}

// takeCode reports whether a link's code is good, which it is once.
func (d *door) takeCode(code string) bool {
	at := strings.LastIndexByte(code, '.')
	if at < 0 || len(code) > 200 {
		return false
	}
	said := code[:at]
	given, err := base64.RawURLEncoding.DecodeString(code[at+1:])
	if err != nil || !hmac.Equal(given, sign(d.Key, "link "+said)[:18]) {
		return false
	}
	first, _, _ := strings.Cut(said, ".")
	ends, err := strconv.ParseInt(first, 36, 64)
	now := d.now().Unix()
	if err != nil || ends < now {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for c, until := range d.used {
		if until < now {
			delete(d.used, c)
		}
	}
	if d.used[said] != 0 {
		return false
	}
	d.used[said] = ends
	return true
}

// tokenOf names whose token this is, "" for nobody's.
func (d *door) tokenOf(given string) (name string) {
	sum := sha256.Sum256([]byte(given))
	for _, t := range d.Tokens {
		want, err := hex.DecodeString(t.SHA256)
		if err == nil && subtle.ConstantTimeCompare(want, sum[:]) == 1 {
			name = t.Name
		}
	}
	return name
}

// maxAddresses bounds for how many addresses failures are counted.
const maxAddresses = 10_000

// locked tells for how long an address may not try to log in.
func (d *door) locked(addr string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.fails[addr]
	if f.tries < triesInRow {
		return 0
	}
	return max(0, f.at.Add(lockTime).Sub(d.now()))
}

// noteTry counts a login that failed, or forgets those before one that did not.
func (d *door) noteTry(addr string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if ok {
		delete(d.fails, addr)
		return
	}
	now := d.now()
	if len(d.fails) >= maxAddresses {
		clear(d.fails)
	}
	f := d.fails[addr]
	if f.tries >= triesInRow && now.Sub(f.at) > lockTime {
		f.tries = 0
	}
	d.fails[addr] = failed{f.tries + 1, now}
}

// cookieName is that of the session. A cookie holds for all ports of a host, so that one
// without TLS is called after the port; with TLS a browser keeps it to this host.
func (d *door) cookieName(r *http.Request) string {
	if d.secure && r.Host == d.host {
		return "__Host-nightcrier"
	}
	_, port, _ := net.SplitHostPort(r.Host)
	return "nightcrier-" + port
}

func (d *door) startSession(w http.ResponseWriter, r *http.Request, name string) {
	ends := d.now().Add(sessionTime)
	said, _ := json.Marshal(session{Name: name, ID: rand.Text(), Ends: ends.Unix()}) // it has no value that JSON lacks
	text := base64.RawURLEncoding.EncodeToString(said)
	d.setCookie(w, r, text+"."+base64.RawURLEncoding.EncodeToString(sign(d.Key, "session "+text)), ends)
}

func (d *door) setCookie(w http.ResponseWriter, r *http.Request, value string, ends time.Time) {
	c := &http.Cookie{Name: d.cookieName(r), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: d.secure && r.Host == d.host, Expires: ends}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// sessionOf is the session of a request, nil where there is none.
func (d *door) sessionOf(r *http.Request) *session {
	c, err := r.Cookie(d.cookieName(r))
	if err != nil {
		return nil
	}
	text, sum, _ := strings.Cut(c.Value, ".")
	given, err := base64.RawURLEncoding.DecodeString(sum)
	if err != nil || !hmac.Equal(given, sign(d.Key, "session "+text)) {
		return nil
	}
	said, err := base64.RawURLEncoding.DecodeString(text)
	var s session
	if err != nil || json.Unmarshal(said, &s) != nil || s.Ends < d.now().Unix() {
		return nil
	}
	return &s
}

// formToken is what a form of a session carries, another each time: an answer that is
// compressed must not hold the same secret twice.
func (d *door) formToken(s *session) string {
	salt := rand.Text()
	return salt + "." + base64.RawURLEncoding.EncodeToString(sign(d.Key, "form "+s.ID+" "+salt)[:18])
}

func (d *door) isFormToken(s *session, given string) bool {
	salt, sum, _ := strings.Cut(given, ".")
	got, err := base64.RawURLEncoding.DecodeString(sum)
	return err == nil && hmac.Equal(got, sign(d.Key, "form "+s.ID+" "+salt)[:18])
}

// contentPolicy is what a browser may do with a page: show it with our files, ask us, and
// post to us. No script and no style stands in a page.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types nightcrier"

// wrap lets in who may see the page, and nobody's posts but our own pages'.
func (d *door) wrap(h http.Handler, files http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := w.Header()
		for name, value := range map[string]string{
			"Content-Security-Policy": contentPolicy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
		} {
			head.Set(name, value)
		}
		if d.secure && r.Host == d.host {
			head.Set("Strict-Transport-Security", "max-age=31536000")
		}
		s := d.sessionOf(r)
		switch {
		case !d.isOurs(r.Host): // a web page may have given this machine a name of its own
			http.Error(w, "The Host header names neither this machine's loopback address nor the page_url of the configuration.", http.StatusMisdirectedRequest)
		case strings.HasPrefix(r.URL.Path, staticPath):
			files.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead && !d.isFromUs(r):
			http.Error(w, "Only a page of this server may post to it.", http.StatusForbidden)
		case r.URL.Path == "/login":
			h.ServeHTTP(w, r)
		case s == nil && (r.Method != http.MethodGet || strings.HasPrefix(r.URL.Path, "/live/")):
			http.Error(w, "You are not logged in, or no longer: open /login.", http.StatusUnauthorized)
		case s == nil:
			http.Redirect(w, r, "/login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
		case r.Method == http.MethodPost && !d.isFormToken(s, r.FormValue("form")):
			http.Error(w, "This form is not from a page of your session. Go back, load the page again, and repeat it.", http.StatusForbidden)
		default:
			h.ServeHTTP(w, r.WithContext(withSession(r.Context(), s)))
		}
	})
}

// isOurs reports whether a Host header is one by which people reach the page.
func (d *door) isOurs(host string) bool {
	if d.host != "" && strings.EqualFold(host, d.host) {
		return true
	}
	name := strings.Trim(host, "[]")
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// isFromUs reports whether one of our pages sent a request, as far as its browser says.
func (d *door) isFromUs(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	u, err := url.Parse(r.Header.Get("Origin")) // no browser posts without one
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}

// loginPage takes the code of a link, or asks for a token.
func (u *UI) loginPage(w http.ResponseWriter, r *http.Request) error {
	code := r.URL.Query().Get("code")
	if code == "" {
		return u.askToken(w, r, http.StatusOK, "")
	}
	if u.door.sessionOf(r) == nil { // else the link is only opened again
		if !u.door.takeCode(code) {
			return u.askToken(w, r, http.StatusUnauthorized, "This link was used already, or is older than 15 minutes. `nightcrier page` prints a new one.")
		}
		u.door.startSession(w, r, "local")
		u.log.Info("login", "event", "login", "by", "link")
	}
	http.Redirect(w, r, "/incidents", http.StatusSeeOther)
	return nil
}

// askToken shows the form of a login.
func (u *UI) askToken(w http.ResponseWriter, r *http.Request, status int, said string) error {
	return u.renderStatus(w, r, status, "login", "Log in", struct {
		Said, To string
		Tokens   bool
	}{said, ownPath(r.FormValue("to")), len(u.door.Tokens) > 0})
}

func (u *UI) login(w http.ResponseWriter, r *http.Request) error {
	addr, _, _ := net.SplitHostPort(r.RemoteAddr)
	if wait := u.door.locked(addr); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		return u.askToken(w, r, http.StatusTooManyRequests, "Too many logins failed. Wait "+strconv.Itoa(int(wait/time.Minute)+1)+" min; a link of `nightcrier page` works at once.")
	}
	name := u.door.tokenOf(strings.TrimSpace(r.FormValue("token")))
	u.door.noteTry(addr, name != "")
	if name == "" {
		u.log.Warn("login failed", "event", "login_failed", "from", addr)
		return u.askToken(w, r, http.StatusUnauthorized, "No such token.")
	}
	u.log.Info("login", "event", "login", "by", name)
	u.door.startSession(w, r, name)
	http.Redirect(w, r, ownPath(r.FormValue("to")), http.StatusSeeOther)
	return nil
}

func (u *UI) logout(w http.ResponseWriter, r *http.Request) error {
	u.door.setCookie(w, r, "", time.Unix(0, 0))
	http.Redirect(w, r, "/login", http.StatusSeeOther)
	return nil
}

// ownPath is a path of this server, /incidents in the place of any other address.
func ownPath(to string) string {
	p, err := url.Parse(to)
	if err != nil || p.Host != "" || p.Scheme != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\\\r\n") {
		return "/incidents"
	}
	return to
}

// ParseToken reads a token of the configuration, NAME=SHA256.
func ParseToken(s string) (Token, error) {
	name, sum, ok := strings.Cut(s, "=")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || name == "" {
		return Token{}, nightcrier.Errorf(nightcrier.Invalid, "a token is written NAME=DIGEST, with the 64 hex digits that `printf %%s TOKEN | sha256sum` prints")
	}
	return Token{name, strings.ToLower(sum)}, nil
}
