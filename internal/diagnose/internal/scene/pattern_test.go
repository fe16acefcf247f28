package scene

import (
	"testing"
)

func TestErrorLine(t *testing.T) {
	cases := []struct{ name, log, want string }{
		{"empty", "", ""},
		{"last line", "starting\nlistening\n\n", "listening"},
		{"go", "starting\npanic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()", "panic: runtime error: index out of range"},
		{"python", "Traceback (most recent call last):\n  File \"x.py\"\nValueError: no such colour\n", "ValueError: no such colour"},
		{"java", "at x.Y\nCaused by: java.net.ConnectException: refused\n\tat z", "Caused by: java.net.ConnectException: refused"},
		{"grave before telling", "FATAL: no database\nerror: closing\nbye", "FATAL: no database"},
		{"dotnet", "Unhandled exception. SqlException (0x80131904): Login failed\n   at Sql.OnError(SqlException exception)", "Unhandled exception. SqlException (0x80131904): Login failed"},
		{"telling", "ok\nconnection refused\nbye", "connection refused"},
		{"the last of its kind", "error one\nerror two\nbye", "error two"},
		{"no word of it", "terrors of the deep\nbye", "bye"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := ErrorLine(c.log); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
