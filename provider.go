package nightcrier

// Provider is whose API a model is called by.
type Provider string

// The providers whose APIs are spoken.
const (
	Anthropic Provider = "anthropic" // Messages
	OpenAI    Provider = "openai"    // Responses and Chat Completions
	Google    Provider = "google"    // Gemini generateContent
	// OpenRouter passes on to the models of many, by Chat Completions.
	OpenRouter Provider = "openrouter"
)

// Providers are all of them.
func Providers() []Provider { return []Provider{Anthropic, OpenAI, Google, OpenRouter} }
