package expr

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// Language is what the expressions of one place may name. It may be used concurrently.
type Language struct{ environment func() (*cel.Env, error) }

// Shape is what a name stands for: an object of certain fields, and no other can be
// named; a mapping whose entries are all alike; or else something of the kind.
type Shape struct {
	Kind   Kind
	Fields map[string]Shape
	Each   *Shape
}

// Payload is the language of those who choose and map what others post: the payload as
// body and, where it holds several things, the one at hand as item.
var Payload = NewLanguage(map[string]Shape{"body": {Kind: Any}, "item": {Kind: Any}})

// NewLanguage returns a language of these names. What it needs is made when there is a
// first expression.
func NewLanguage(names map[string]Shape) *Language {
	return &Language{environment: sync.OnceValues(func() (*cel.Env, error) {
		registry, err := types.NewRegistry()
		if err != nil {
			return nil, err
		}
		known := objects{Registry: registry, fields: map[string]map[string]*types.FieldType{}}
		options := []cel.EnvOption{cel.OptionalTypes(), ext.Strings(), cel.CustomTypeProvider(known)}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			options = append(options, cel.Variable(name, known.addShape(name, names[name])))
		}
		return cel.NewEnv(options...)
	})}
}

// objects are the types of a language that have fields.
type objects struct {
	*types.Registry
	fields map[string]map[string]*types.FieldType
}

// addShape returns the type of a shape, and keeps those that have fields by that name.
func (o objects) addShape(name string, s Shape) *cel.Type {
	switch {
	case s.Each != nil:
		return cel.MapType(cel.StringType, o.addShape(name+".entry", *s.Each))
	case s.Fields != nil:
		o.fields[name] = map[string]*types.FieldType{}
		for field, shape := range s.Fields {
			o.fields[name][field] = &types.FieldType{
				Type:    o.addShape(name+"."+field, shape),
				IsSet:   func(of any) bool { object, _ := of.(map[string]any); return object[field] != nil },
				GetFrom: func(of any) (any, error) { return fieldOf(of, field) },
			}
		}
		return cel.ObjectType(name)
	}
	return map[Kind]*cel.Type{Text: cel.StringType, Bool: cel.BoolType, List: cel.ListType(cel.DynType), Any: cel.DynType}[s.Kind]
}

func fieldOf(of any, field string) (any, error) {
	object, ok := of.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("no such key: %s", field)
	}
	return object[field], nil
}

func (o objects) FindStructType(name string) (*types.Type, bool) {
	if _, ok := o.fields[name]; ok {
		return types.NewTypeTypeWithParam(types.NewObjectType(name)), true
	}
	return o.Registry.FindStructType(name)
}

func (o objects) FindStructFieldNames(name string) ([]string, bool) {
	if fields, ok := o.fields[name]; ok {
		return slices.Sorted(maps.Keys(fields)), true
	}
	return o.Registry.FindStructFieldNames(name)
}

func (o objects) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	if fields, ok := o.fields[name]; ok {
		found, ok := fields[field]
		return found, ok
	}
	return o.Registry.FindStructFieldType(name, field)
}

// EntriesOf lists the entries of a name that the expression writes out, such as a for
// steps: steps.a, steps["a"] and steps.?a.
func (e *Expression) EntriesOf(name string) []string {
	found := map[string]bool{}
	ast.PreOrderVisit(e.ast.NativeRep().Expr(), ast.NewExprVisitor(func(at ast.Expr) {
		switch at.Kind() {
		case ast.SelectKind:
			if isIdent(at.AsSelect().Operand(), name) {
				found[at.AsSelect().FieldName()] = true
			}
		case ast.CallKind:
			call := at.AsCall()
			if !slices.Contains([]string{operators.Index, operators.OptIndex, operators.OptSelect}, call.FunctionName()) || !isIdent(call.Args()[0], name) {
				return
			}
			if key := call.Args()[1]; key.Kind() == ast.LiteralKind {
				if word, ok := key.AsLiteral().(types.String); ok {
					found[string(word)] = true
				}
			}
		}
	}))
	return slices.Sorted(maps.Keys(found))
}

func isIdent(e ast.Expr, name string) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == name }
