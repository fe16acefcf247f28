// Package expr compiles and evaluates the expressions of the configuration, in
// the Common Expression Language. They are ours, what they look at comes from
// outside: each evaluation is bounded in steps and in time.
//
// A Language says what its expressions may name. Beside the standard functions there are
// those of strings, and optional fields: item.?labels.?pod.orValue("").
package expr

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"nightcrier.dev/nightcrier"
	"nightcrier.dev/nightcrier/internal/text"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

// Bounds of one evaluation.
const (
	maxCost    = 2_000_000
	maxTime    = time.Second
	checkEvery = 100
	// maxText bounds the text that comes out, in bytes; maxItems a list, and
	// maxBytes what its items take together.
	maxText  = 64 << 10
	maxItems = 20_000
	maxBytes = 32 << 20
)

// Kind is what an expression yields, or a name stands for.
type Kind int

// The kinds. Numbers and truth values are taken as texts too, null as none. Any is
// whatever JSON has.
const (
	Text Kind = iota
	Bool
	List
	Any
)

func (k Kind) String() string {
	return [...]string{"a text", "true or false", "a list", "any value"}[k]
}

// Expression is a compiled expression. It may be used concurrently.
type Expression struct {
	program cel.Program
	ast     *cel.Ast
}

// Vars are what an expression sees, by name: values as encoding/json decodes them.
type Vars map[string]any

// Compile returns the expression of a source that yields want; otherwise an
// Invalid error that says where it is wrong.
func (l *Language) Compile(source string, want Kind) (*Expression, error) {
	env, err := l.environment()
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Internal, "make the environment of expressions: %w", err)
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return nil, nightcrier.Errorf(nightcrier.Invalid, "is not a valid expression: line %d, column %d: %s%s", first.Location.Line(), max(first.Location.Column(), 0)+1,
			strings.TrimSuffix(first.Message, " (in container '')"), quotingAdvice(source))
	}
	if got := ast.OutputType(); !yieldsKind(got, want) {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "is an expression that yields %s: it must yield %s", cel.FormatCELType(got), want)
	}
	program, err := env.Program(ast, cel.CostLimit(maxCost), cel.InterruptCheckFrequency(checkEvery), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, nightcrier.Errorf(nightcrier.Invalid, "is not a valid expression: %w", err)
	}
	return &Expression{program: program, ast: ast}, nil
}

// words is what somebody writes who means the text itself.
var words = regexp.MustCompile(`^[A-Za-z][\w -]*$`)

func quotingAdvice(source string) string {
	if !words.MatchString(source) {
		return ""
	}
	return fmt.Sprintf(`; a fixed text has quotes of its own, such as '"%s"'`, source)
}

func yieldsKind(t *cel.Type, want Kind) bool {
	switch {
	case t.Kind() == types.DynKind, want == Any:
		return true
	case want == Bool:
		return t.Kind() == types.BoolKind
	case want == List:
		return t.Kind() == types.ListKind
	}
	return t.Kind() != types.ListKind && t.Kind() != types.MapKind
}

// Text evaluates to a text.
func (e *Expression) Text(ctx context.Context, v Vars) (string, error) {
	out, err := e.evalProgram(ctx, v)
	if err != nil {
		return "", err
	}
	var text string
	switch value := out.(type) {
	case types.Null:
	case types.String:
		text = string(value)
	case types.Bool:
		text = strconv.FormatBool(bool(value))
	case types.Int:
		text = strconv.FormatInt(int64(value), 10)
	case types.Uint:
		text = strconv.FormatUint(uint64(value), 10)
	case types.Double:
		text = strconv.FormatFloat(float64(value), 'f', -1, 64)
	default:
		return "", mismatchError(out, Text)
	}
	if len(text) > maxText {
		return "", nightcrier.Errorf(nightcrier.Exhausted, "it yields %d bytes; at most %d are taken", len(text), maxText)
	}
	return text, nil
}

// Bool evaluates to a truth value.
func (e *Expression) Bool(ctx context.Context, v Vars) (bool, error) {
	out, err := e.evalProgram(ctx, v)
	if err != nil {
		return false, err
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, mismatchError(out, Bool)
	}
	return bool(b), nil
}

// List evaluates to a list, whose entries are as encoding/json decodes them.
func (e *Expression) List(ctx context.Context, v Vars) ([]any, error) {
	out, err := e.evalProgram(ctx, v)
	if err != nil {
		return nil, err
	}
	if s, ok := out.(traits.Sizer); ok { // before they are copied
		if n, ok := s.Size().(types.Int); ok && n > maxItems {
			return nil, nightcrier.Errorf(nightcrier.Exhausted, "it yields %d items; at most %d are taken", n, maxItems)
		}
	}
	list, ok := out.(traits.Lister)
	if !ok {
		return nil, mismatchError(out, List)
	}
	var items []any
	size := 0
	for it := list.Iterator(); it.HasNext() == types.True; { // one by one: what they share is copied for each
		native, err := it.Next().ConvertToNative(reflect.TypeFor[*structpb.Value]())
		item, ok := native.(*structpb.Value)
		if err != nil || !ok {
			return nil, mismatchError(out, List)
		}
		if size += proto.Size(item); size > maxBytes {
			return nil, nightcrier.Errorf(nightcrier.Exhausted, "its items take more than %d bytes", maxBytes)
		}
		items = append(items, item.AsInterface())
	}
	return items, nil
}

// Value evaluates to any value, as encoding/json decodes it.
func (e *Expression) Value(ctx context.Context, v Vars) (any, error) {
	out, err := e.evalProgram(ctx, v)
	if err != nil {
		return nil, err
	}
	native, err := out.ConvertToNative(reflect.TypeFor[*structpb.Value]())
	value, ok := native.(*structpb.Value)
	if err != nil || !ok {
		return nil, mismatchError(out, Any)
	}
	if size := proto.Size(value); size > maxBytes {
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "it yields more than %d bytes", maxBytes)
	}
	return value.AsInterface(), nil
}

func mismatchError(got ref.Val, want Kind) error {
	return nightcrier.Errorf(nightcrier.Invalid, "it yields %s instead of %s", got.Type().TypeName(), want)
}

func (e *Expression) evalProgram(ctx context.Context, v Vars) (ref.Val, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	out, _, err := e.program.ContextEval(ctx, map[string]any(v))
	switch stop := (interpreter.EvalCancelledError{}); {
	case err == nil:
		return out, nil
	case errors.As(err, &stop) && stop.Cause == interpreter.CostLimitExceeded:
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "it costs too much: more than %d steps; look at less, or nest fewer loops", maxCost)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, nightcrier.Errorf(nightcrier.Exhausted, "it costs too much: more than %s; look at less, or nest fewer loops", maxTime)
	}
	return nil, nightcrier.Errorf(nightcrier.Invalid, "%w", plain{err})
}

// plain is an evaluation's error in short: what the library adds helps nobody who
// does not see its source.
type plain struct{ error }

func (p plain) Unwrap() error { return p.error }

func (p plain) Error() string {
	return "it cannot be evaluated: " + text.CutBytes(p.error.Error(), 256)
}
