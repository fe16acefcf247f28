package mask

import "testing"

func TestNamesSecret(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"password": true, "DB_PASSWORD": true, "db-password": true, "dbPassword": true, "acme.io/password": true, "acme.io/api-key": true, "token": true, "auth_token": true, "client_secret": true,
		"namespace": false, "pod": false, "le": false, "app.kubernetes.io/name": false, "tokens_used_total": false, "": false, "compass": false, "secret_name": false, "key": false, `"`: false,
	} {
		if got := NamesSecret(name); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
