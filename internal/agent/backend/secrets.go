package backend

import (
	"crypto/hmac"
	"crypto/sha256"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"nightcrier.dev/nightcrier/internal/guard/data"
	"nightcrier.dev/nightcrier/internal/mask"
)

// Secrets are handed to a worker over a pipe, and to nothing else.
type Secrets struct {
	ModelAPIKey string `json:"modelApiKey,omitempty"`
	// Cluster is the credential that the worker's guard holds, nil for none: the
	// agent then cannot look into the cluster.
	Cluster *Credential `json:"cluster,omitempty"`
	// Sources are what the agent may ask for metrics and logs, nil for nothing.
	Sources *data.Access `json:"sources,omitempty"`
	// Variables are the environment variables that ToolServers name.
	Variables map[string]string `json:"variables,omitempty"`
	// MaskKey and MaskValues make the guard mask as the server does: the same secret
	// has the same tag in both.
	MaskKey    []byte   `json:"maskKey,omitempty"`
	MaskValues []string `json:"maskValues,omitempty"`
	// Learned is what the server has learned of the run's secrets, sealed by MaskKey.
	Learned []byte `json:"learned,omitempty"`
}

// Credential is what a cluster is read with.
type Credential struct {
	// Kubeconfig has one context, and certificates and keys inline.
	Kubeconfig []byte `json:"kubeconfig"`
	// Env is the whole environment of a credential plugin that it names.
	Env []string `json:"env,omitempty"`
	// Namespaces are those that an agent may read, besides what has none; empty means
	// all.
	Namespaces []string `json:"namespaces,omitempty"`
	// Recorded says that it leads to a record of a cluster, see guard/kube.Upstream.
	Recorded bool `json:"recorded,omitempty"`
}

// NewMasker masks what the server masks, with the same tags, and the secrets that only the
// worker has.
func (s *Secrets) NewMasker() *mask.Masker {
	values := append(slices.Clone(s.MaskValues), s.ModelAPIKey)
	values = slices.AppendSeq(values, maps.Values(s.Variables))
	if s.Cluster != nil {
		values = append(values, s.Cluster.Secrets()...)
	}
	if s.Sources != nil {
		values = append(values, s.Sources.Secrets()...)
	}
	return mask.New(s.MaskKey, values...)
}

// NewSeparateMasker masks the same with tags of its own. It is for what repeats the agent's words, its
// calls of the model and of others' tools: with the tags that stand in answers of the
// cluster, the agent would be told whether it guessed a secret.
func (s *Secrets) NewSeparateMasker(what string) *mask.Masker {
	own, mac := *s, hmac.New(sha256.New, s.MaskKey)
	mac.Write([]byte(what))
	own.MaskKey = mac.Sum(nil)
	return own.NewMasker()
}

// Secrets are the values in a credential that must appear nowhere.
func (c *Credential) Secrets() []string {
	cfg, err := clientcmd.Load(c.Kubeconfig)
	if err != nil {
		return nil // nor can it be dialled
	}
	var values []string
	for _, u := range cfg.AuthInfos {
		values = append(values, u.Token, u.Password, string(u.ClientKeyData))
	}
	for _, kv := range c.Env {
		if name, value, _ := strings.Cut(kv, "="); secretVar.MatchString(name) {
			values = append(values, value)
		}
	}
	return values
}

// secretVar matches the variables of credential plugins that hold a secret.
var secretVar = regexp.MustCompile(`SECRET|TOKEN|PASSWORD`)
