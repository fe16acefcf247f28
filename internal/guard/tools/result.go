package tools

import (
	"context"
	"fmt"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/cluster/kubetool"
	"nightcrier.dev/nightcrier/internal/text"
)

// pageBytes is how much of a result is shown at once.
const pageBytes = 32 << 10

// resultTool reads on in a result that was shortened.
func (s *Server) resultTool() []Tool {
	if s.cfg.Result == nil {
		return nil
	}
	params := kubetool.Params{
		{Name: "evidence", Type: kubetool.String, Required: true, About: "The id that the result ended with, such as E12"},
		{Name: "offset", Type: kubetool.Integer, Max: 1 << 30, About: "From which byte on; a shortened result says how far it was shown"}}
	return []Tool{{
		Name: "read_result", Title: "Workspace: Read on in a result", Schema: params.Schema(), Call: callWithArguments("read_result", params, s.readResult),
		About: fmt.Sprintf("Shows what another tool of this run returned as it was recorded, %d bytes at once, where the result was shortened.", pageBytes),
	}}
}

func (s *Server) readResult(_ context.Context, a kubetool.Args) (string, error) {
	id, offset := a.String("evidence"), a.Int("offset")
	whole, err := s.cfg.Result(id)
	if err != nil {
		return "", err
	}
	if offset > 0 && offset >= len(whole) {
		return "", nightcrier.Errorf(nightcrier.Invalid, "%.20s has %d bytes; there is nothing from byte %d on", id, len(whole), offset)
	}
	page := text.KeepLines(string(whole[offset:]), pageBytes)
	shown := text.MarkHidden(page)
	if end := offset + len(page); end < len(whole) {
		shown += fmt.Sprintf("\n(bytes %d to %d of %d are shown; go on with offset: %d)", offset, end-1, len(whole), end)
	}
	return shown + "\n[evidence " + id + "]\n", nil
}
