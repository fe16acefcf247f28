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

func TestSelectsBySecret(t *testing.T) {
	t.Parallel()
	for selector, want := range map[string]string{
		"": "", "app=cart,tier!=db": "", "app in (a,b),!token,password": "", "replicas>3": "", "app.kubernetes.io/name=cart": "",
		"password=x": "password", "a=b,db_password!=x": "db_password", "token in (a,b)": "token", "token notin (a)": "token", "acme.io/api-key>4711": "acme.io/api-key", "pin=1,acme.io/password<5": "acme.io/password",
	} {
		if got, err := SelectsBySecret(selector); err != nil || got != want {
			t.Errorf("%q: %q, %v", selector, got, err)
		}
	}
	for _, selector := range []string{"a in (", "a=b,,", "=", "a>x"} {
		if got, err := SelectsBySecret(selector); err == nil {
			t.Errorf("%q: %q", selector, got)
		}
	}
}
