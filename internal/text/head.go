package text

// Head keeps the first bytes of what is written to it, at most Max, and takes the rest
// without a word.
type Head struct {
	Max  int
	Kept []byte
	// Cut says that there was more.
	Cut bool
}

// Write implements io.Writer.
func (h *Head) Write(p []byte) (int, error) {
	keep := min(len(p), h.Max-len(h.Kept))
	h.Kept, h.Cut = append(h.Kept, p[:keep]...), h.Cut || keep < len(p)
	return len(p), nil
}
