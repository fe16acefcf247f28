package kubetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// identity is how a server proves itself and knows its administrator: one
// self-signed certificate, whose key also signs ServiceAccount tokens, and one
// static token.
type identity struct {
	certFile, keyFile, tokenFile string
	cert                         []byte // PEM, what clients trust
	token                        string // of a member of system:masters
}

func newIdentity(dir string) (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := selfSigned(key)
	if err != nil {
		return nil, err
	}
	ec, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	id := &identity{
		certFile:  filepath.Join(dir, "server.crt"),
		keyFile:   filepath.Join(dir, "server.key"),
		tokenFile: filepath.Join(dir, "tokens.csv"),
		cert:      pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		token:     rand.Text(),
	}
	return id, id.write(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: ec}))
}

func (id *identity) write(key []byte) error {
	for path, content := range map[string][]byte{
		id.certFile:  id.cert,
		id.keyFile:   key,
		id.tokenFile: []byte(id.token + `,admin,admin,"system:masters"` + "\n"),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func selfSigned(key *ecdsa.PrivateKey) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "kubetest"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:              []string{"localhost"},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	return x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
}
