package githubtest

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// appPublic is the App's key as GitHub has it.
func (s *Server) appPublic() *rsa.PublicKey { return &s.key.PublicKey }

// checkJWT says what is wrong with the signature of an App.
func (s *Server) checkJWT(r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	parts := strings.Split(token, ".")
	if !ok || len(parts) != 3 {
		return errors.New("A JSON web token could not be decoded")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(s.appPublic(), crypto.SHA256, sum[:], signature); err != nil {
		return errors.New("A JSON web token could not be decoded")
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var claims struct {
		Iss      string
		Iat, Exp int64
	}
	if err := json.Unmarshal(raw, &claims); err != nil {
		return err
	}
	switch now := time.Now().Unix(); {
	case claims.Iss != fmt.Sprint(AppID):
		return errors.New("'Issuer' claim ('iss') must be the App's id")
	case claims.Exp > now+600:
		return errors.New("'Expiration time' claim ('exp') is too far in the future")
	case claims.Exp < now:
		return errors.New("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	case claims.Iat > now:
		return errors.New("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	}
	return nil
}

// asApp lets an App in, by its own signature.
func (s *Server) asApp(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := s.checkJWT(r); err != nil {
			refuse(w, http.StatusUnauthorized, err.Error())
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		next(w, r)
	}
}

// visitor is who asks.
type visitor struct{ app bool }

// asVisitor lets in who has a token for the repository, and shows nobody else that there is one.
func (s *Server) asVisitor(next func(w http.ResponseWriter, r *http.Request, repo *repository, by visitor)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		name := r.PathValue("owner") + "/" + r.PathValue("name")
		only, issued := s.issued[token]
		repo := s.repos[name]
		switch {
		case token != s.Token && !issued:
			refuse(w, http.StatusUnauthorized, "Bad credentials")
		case repo == nil, issued && only != name:
			refuse(w, http.StatusNotFound, "Not Found")
		default:
			next(w, r, repo, visitor{app: issued})
		}
	}
}

func (s *Server) installationRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /app", s.asApp(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]any{"id": AppID, "slug": Slug, "permissions": map[string]string{"contents": "read", "pull_requests": "write", "checks": "write"},
			"events": []string{"pull_request", "issue_comment", "pull_request_review_comment"}})
	}))
	mux.HandleFunc("GET /repos/{owner}/{name}/installation", s.asApp(func(w http.ResponseWriter, r *http.Request) {
		if s.repos[r.PathValue("owner")+"/"+r.PathValue("name")] == nil {
			refuse(w, http.StatusNotFound, "Not Found")
			return
		}
		answer(w, http.StatusOK, map[string]any{"id": 99, "app_id": AppID})
	}))
	mux.HandleFunc("POST /app/installations/{id}/access_tokens", s.asApp(func(w http.ResponseWriter, r *http.Request) {
		var want struct{ Repositories []string }
		if err := json.NewDecoder(r.Body).Decode(&want); err != nil || len(want.Repositories) != 1 {
			refuse(w, http.StatusUnprocessableEntity, "the test expects one repository")
			return
		}
		for name := range s.repos {
			if strings.HasSuffix(name, "/"+want.Repositories[0]) {
				token := fmt.Sprintf("issued-%d", s.id())
				s.issued[token] = name
				answer(w, http.StatusCreated, map[string]any{"token": token, "expires_at": time.Now().Add(time.Hour).UTC()})
				return
			}
		}
		refuse(w, http.StatusUnprocessableEntity, "There is at least one repository that does not exist or is not accessible to the parent installation.")
	}))
	mux.HandleFunc("GET /user", func(w http.ResponseWriter, r *http.Request) {
		switch token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); {
		case token == s.Token:
			answer(w, http.StatusOK, map[string]any{"login": Login, "type": "Bot"})
		default:
			refuse(w, http.StatusUnauthorized, "Bad credentials")
		}
	})
}
