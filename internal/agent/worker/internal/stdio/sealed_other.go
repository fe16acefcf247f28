//go:build !linux

package stdio

import "os"

// SealText is a file that holds text. Agents are confined on Linux alone; elsewhere it is
// an unnamed temporary file.
func SealText(text []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "nightcrier-prompt-")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	if _, err = f.Write(text); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
