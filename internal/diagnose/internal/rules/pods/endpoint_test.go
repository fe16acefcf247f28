package pods

import (
	"testing"
)

func TestEndpointIn(t *testing.T) {
	for line, want := range map[string]string{
		`dial tcp: lookup databse on 10.96.0.10:53: no such host`:                                        "databse",
		`dial tcp 10.0.0.1:5432: connect: connection refused`:                                            "10.0.0.1:5432",
		`dial tcp: lookup db.shop.svc.cluster.local: i/o timeout`:                                        "db.shop.svc.cluster.local",
		`Error: connect ECONNREFUSED 10.96.14.2:6379`:                                                    "10.96.14.2:6379",
		`Error: getaddrinfo ENOTFOUND redis-cart`:                                                        "redis-cart",
		`connection to server at "db" (10.0.0.1), port 5432 failed: Connection refused`:                  "db:5432",
		`Connection to db:5432 refused. Check that`:                                                      "db:5432",
		`HTTPConnectionPool(host='catalog', port=8080): Max retries exceeded with url: /x`:               "catalog:8080",
		`could not translate host name "db" to address: Name or service not known`:                       "db",
		`[emerg] 1#1: host not found in upstream "cart:8080" in /etc/nginx/conf.d/default.conf:3`:        "cart",
		`java.net.UnknownHostException: db: Name or service not known`:                                   "db",
		`amqp://user:secret@rabbit:5672/: connection refused`:                                            "rabbit:5672",
		`2026/03/01 12:00:05 main.go:42: cannot connect to db:5432: connection refused`:                  "db:5432",
		`main.go:42 connection refused`:                                                                  "",
		`nc: bad address 'db'`:                                                                           "db",
		`Unknown MySQL server host 'db' (-2)`:                                                            "db",
		`Failed to resolve 'kafka:9092': Name or service not known`:                                      "kafka:9092",
		`connect() failed (111: Connection refused), upstream: "http://10.0.0.3:8080/x", host: "shop.x"`: "10.0.0.3:8080",
	} {
		got := ""
		if e, ok := endpointIn(line); ok {
			got = e.String()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	for want, names := range map[string][]string{"": {"frontend", "checkout"}, "database": {"frontend", "database"}, "cart-db": {"cart-db"}, "db-primary": {"db-primary"}} {
		asked := map[string]string{"": "redis", "database": "databse", "cart-db": "db", "db-primary": "db"}[want]
		if got := nearestName(asked, names); got != want {
			t.Errorf("%s of %v: %q", asked, names, got)
		}
	}
}
