package domain

import "testing"

func TestParseHost(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"h": "h", "h:1": "h:1", "fd00::1": "fd00::1", "[fd00::1]": "fd00::1", "[fd00::1]:10809": "[fd00::1]:10809",
		"10.0.0.1:65535": "10.0.0.1:65535", "unix:/a:b": "unix:/a:b",
		"": "", ":1": "", "h:": "", "h:0": "", "h:65536": "", "h:1:2": "", "[h]:1": "", "a/b": "", "unix:": "", "a b": "",
	} {
		got, ok := parseHost(text)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("%q: %q %v", text, got.String(), ok)
		}
	}
}
