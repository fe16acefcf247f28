package kinds

import (
	"cmp"
	"strings"
	"unicode"

	"nightcrier.dev/nightcrier"
)

// WholeCluster stands for a cluster as a whole, as if it were an object of it. Its name is one that
// an object can have: contexts are called arn:aws:eks:eu-west-1:1:cluster/prod and gke_shop_europe-west1_prod.
func WholeCluster(cluster string) nightcrier.Resource {
	name := strings.Map(func(r rune) rune {
		if r > 'z' || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return '-'
		}
		return r
	}, cluster)
	return nightcrier.Resource{Kind: Cluster, Name: cmp.Or(strings.Trim(name[:min(len(name), maxName)], "-"), "cluster")}
}

// maxName is how long an object's name may be.
const maxName = 253
