package intake

import (
	"testing"

	"nightcrier.dev/nightcrier"
)

func TestOwnerByName(t *testing.T) {
	t.Parallel()
	tests := []struct{ kind, name, want string }{
		{"Pod", "cart-7d9f8b6c5d-x2x9z", "Deployment/cart"},
		{"Pod", "nginx-deployment-66b6c48dd5-7hsn9", "Deployment/nginx-deployment"},
		{"Pod", "payment-api-58cb9-bf4-x2x9z", "DaemonSet/payment-api-58cb9-bf4"}, // too short for a hash
		{"Pod", "web-0", "StatefulSet/web"},
		{"Pod", "web-x7k2p-12", "StatefulSet/web-x7k2p"},
		{"Pod", "agent-x7k2p", "DaemonSet/agent"},
		{"Pod", "backup-28391020-abcde", "CronJob/backup"},
		{"Pod", "backup-28391020-x7k2p", "CronJob/backup"},
		{"Job", "backup-28391020", "CronJob/backup"},
		{"Job", "migrate-v2", "Job/migrate-v2"},
		{"Job", "backup-2839102", "Job/backup-2839102"},
		{"ReplicaSet", "cart-7d9f8b6c5d", "Deployment/cart"},
		{"ReplicaSet", "cart", "ReplicaSet/cart"},
		// Words are no hashes.
		{"Pod", "nginx", "Pod/nginx"},
		{"Pod", "my-proxy", "Pod/my-proxy"},
		{"Pod", "kube-apiserver-master", "Pod/kube-apiserver-master"},
		{"Pod", "etcd-worker", "Pod/etcd-worker"},
		{"Pod", "cart-bcdfbcdf-x2x9z", "DaemonSet/cart-bcdfbcdf"},
		{"ReplicaSet", "cart-fdbcfd", "ReplicaSet/cart-fdbcfd"},
		// Odd names.
		{"Pod", "", "Pod/"},
		{"Pod", "-", "Pod/-"},
		{"Pod", "-x7k2p", "Pod/-x7k2p"},
		{"Pod", "web-12345678", "Pod/web-12345678"},
		{"Node", "ip-10-0-0-1", "Node/ip-10-0-0-1"},
		{"Service", "cart-7d9f8b6c5d", "Service/cart-7d9f8b6c5d"},
	}
	for _, tt := range tests {
		got := OwnerByName(nightcrier.Resource{Kind: tt.kind, Name: tt.name, UID: "u"})
		if s := got.Kind + "/" + got.Name; s != tt.want {
			t.Errorf("owner of %s %s is %s, want %s", tt.kind, tt.name, s, tt.want)
		}
		if got.Kind != tt.kind && got.UID != "" {
			t.Errorf("the guessed owner of %s has a uid", tt.name)
		}
	}
}
