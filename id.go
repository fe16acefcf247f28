package nightcrier

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"time"
)

// NewID returns a version 7 UUID: unique, and sorting by creation time to a quarter of
// a microsecond (RFC 9562 §5.7, and §6.2 for parts of a millisecond).
func NewID() string { return newID(time.Now()) }

func newID(now time.Time) string {
	var b [16]byte
	// crypto/rand.Read never returns an error (it aborts the process instead).
	_, _ = rand.Read(b[8:])
	ms, part := now.UnixMilli(), now.Nanosecond()%int(time.Millisecond)
	binary.BigEndian.PutUint64(b[:8], uint64(ms)<<16|uint64(part<<12/int(time.Millisecond)))
	b[6] |= 0x70
	b[8] = b[8]&0x3f | 0x80
	return formatUUID(b)
}

// DerivedID returns a version 8 UUID (RFC 9562 §5.8) that is the same for the same
// parts, and another one for any others.
func DerivedID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	var b [16]byte
	copy(b[:], h.Sum(nil))
	b[6] = b[6]&0x0f | 0x80
	b[8] = b[8]&0x3f | 0x80
	return formatUUID(b)
}

func formatUUID(b [16]byte) string {
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// ValidID reports whether s is a UUID in its canonical lower-case form. Ids
// become directory names, so nothing else is ever accepted.
func ValidID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, c := range []byte(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		hexDigit := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if dash != (c == '-') || !dash && !hexDigit {
			return false
		}
	}
	return true
}

// CheckID returns an Invalid error when s is not a UUID.
func CheckID(s string) error {
	if ValidID(s) {
		return nil
	}
	return Errorf(Invalid, "id %.64q is not a UUID; take it from `nightcrier incidents list` or `nightcrier runs list`", s)
}
