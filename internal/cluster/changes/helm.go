package changes

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"io"

	"nightcrier.dev/nightcrier"
)

// Release is what is taken of a Helm release: everything else in it, values and
// manifests above all, is not even decoded.
type Release struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	Info    struct {
		LastDeployed string `json:"last_deployed"`
		Status       string `json:"status"`
		Description  string `json:"description"`
	} `json:"info"`
	Chart struct {
		Metadata struct {
			Name       string `json:"name"`
			Version    string `json:"version"`
			AppVersion string `json:"appVersion"`
		} `json:"metadata"`
	} `json:"chart"`
}

// maxRelease bounds a release, unpacked, in bytes.
const maxRelease = 16 << 20

// UnpackRelease takes a release out of the Secret that Helm keeps it in, as the
// API server's JSON: base64 of the API, base64 of Helm, gzip, JSON. Errors are
// Invalid, or Exhausted for one that is too large.
func UnpackRelease(raw []byte) (Release, error) {
	var secret struct {
		Data struct {
			Release []byte `json:"release"`
		} `json:"data"`
	}
	var rel Release
	if err := json.Unmarshal(raw, &secret); err != nil {
		return rel, nightcrier.Errorf(nightcrier.Invalid, "the Secret is not readable")
	}
	packed, err := base64.StdEncoding.DecodeString(string(secret.Data.Release))
	if err != nil {
		return rel, nightcrier.Errorf(nightcrier.Invalid, "it is not base64")
	}
	body := packed
	if bytes.HasPrefix(packed, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err == nil {
			body, err = io.ReadAll(io.LimitReader(z, maxRelease+1))
		}
		if err != nil {
			return rel, nightcrier.Errorf(nightcrier.Invalid, "it is not gzip")
		}
	}
	if len(body) > maxRelease {
		return rel, nightcrier.Errorf(nightcrier.Exhausted, "it is larger than %d bytes", maxRelease)
	}
	if err := json.Unmarshal(body, &rel); err != nil {
		return rel, nightcrier.Errorf(nightcrier.Invalid, "it is not the JSON that Helm writes")
	}
	return rel, nil
}
