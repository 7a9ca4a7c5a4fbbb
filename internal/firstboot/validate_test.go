package firstboot

import (
	"strings"
	"testing"
)

// secretWord is in the content of every test: no problem may quote it.
const secretWord = "hunter2"

func checkProblems(t *testing.T, problems []Problem, want string) {
	t.Helper()
	var texts []string
	for i := range problems {
		texts = append(texts, problems[i].Error())
	}
	text := strings.Join(texts, "\n")
	switch {
	case want == "" && text != "":
		t.Errorf("got %s; want none", text)
	case !strings.Contains(text, want):
		t.Errorf("got %q; want %q", text, want)
	case strings.Contains(text, secretWord):
		t.Errorf("the content is quoted in %s", text)
	}
}

func TestValidate_userData(t *testing.T) {
	t.Parallel()
	multipart := func(part string) string {
		return "Content-Type: multipart/mixed; boundary=\"XX\"\nMIME-Version: 1.0\n\n--XX\n" +
			"Content-Type: text/cloud-config\n\n" + part + "\n--XX--\n"
	}
	for name, test := range map[string]struct{ text, want string }{
		"none":                  {"", ""},
		"cloud-config":          {"#cloud-config\nhostname: a\n", ""},
		"nothing but a header":  {"#cloud-config", ""},
		"space before":          {"\n  #cloud-config\nhostname: a\n", ""},
		"Windows lines":         {"#cloud-config\r\nhostname: a\r\n", ""},
		"script":                {"#!/bin/sh\necho: {", ""},
		"include":               {"#include\nhttps://a/b", ""},
		"include once":          {"#include-once\nhttps://a/b", ""},
		"boothook":              {"#cloud-boothook\ntrue", ""},
		"part handler":          {"#part-handler\n", ""},
		"jinja":                 {"## template: jinja\n#cloud-config\nhostname: {{ v1.x }}", ""},
		"jinja without":         {"## template: jinja\nhostname: hunter2", "line 2: after"},
		"archive":               {"#cloud-config-archive\n- type: text/x-shellscript\n", ""},
		"archive, a mapping":    {"#cloud-config-archive\ntype: hunter2\n", "must be a YAML list"},
		"gzip":                  {"\x1f\x8b\x08whatever", ""},
		"gzip in base64":        {"H4sIAAhunter2", "set gzip and base64_encode to false"},
		"no header":             {"password: hunter2\n", "write \"#cloud-config\" in its first line"},
		"no header, no YAML":    {"hunter2\n", "user_data, line 1: cloud-init ignores"},
		"misspelt":              {"#cloudconfig\npassword: hunter2", "user_data, line 1: cloud-init ignores"},
		"tab":                   {"#cloud-config\nusers:\n\t- hunter2\n", "line 3: it isn't valid YAML"},
		"colons":                {"#cloud-config\npassword: hunter2: x\n", "mapping values are not allowed"},
		"anchor":                {"#cloud-config\npassword: *hunter2\n", "unknown anchor"},
		"open quote":            {"#cloud-config\npassword: \"hunter2\n", "it isn't valid YAML"},
		"a list":                {"#cloud-config\n- hunter2\n", "line 2: it must be a YAML mapping"},
		"two documents":         {"#cloud-config\na: hunter2\n---\nb: 1\n", "more than one YAML document"},
		"the same key twice":    {"#cloud-config\na: 1\na: 2\n", ""},
		"multi-part":            {multipart("#cloud-config\na: 1"), ""},
		"multi-part, bad part":  {multipart("#cloud-config\na: hunter2: 1"), "part 1 of the MIME multi-part: line 2: it"},
		"multi-part, cut off":   {strings.TrimSuffix(multipart("a: 1"), "--XX--\n"), "closing boundary"},
		"multi-part, no bound.": {"Content-Type: multipart/mixed\n\nhunter2", "names no boundary"},
		"multi-part, no end":    {"Content-Type: multipart/mixed hunter2", "no Content-Type that can be read"},
		"one part":              {"Content-Type: text/x-shellscript\n\n#!/bin/sh", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkProblems(t, NoCloud{UserData: test.text}.Validate(), test.want)
			if test.want != "" {
				checkProblems(t, NoCloud{VendorData: test.text}.Validate(), "vendor_data")
			}
		})
	}
}

func TestValidate_networkConfigAndMetaData(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		n    NoCloud
		want string
	}{
		"version 2":         {NoCloud{NetworkConfig: "version: 2\nethernets: {}\n"}, ""},
		"version 1":         {NoCloud{NetworkConfig: "version: 1\nconfig: []\n"}, ""},
		"under network":     {NoCloud{NetworkConfig: "network:\n  version: 2\n"}, ""},
		"disabled":          {NoCloud{NetworkConfig: "network: {config: disabled}\n"}, ""},
		"JSON":              {NoCloud{NetworkConfig: `{"version": 2}`}, ""},
		"version 3":         {NoCloud{NetworkConfig: "a: 1\nversion: 3\n"}, "network_config, line 2: it has a version that"},
		"no version":        {NoCloud{NetworkConfig: "ethernets: {}\n"}, "names no version"},
		"empty":             {NoCloud{NetworkConfig: "# hunter2\n"}, "names no version"},
		"1 without config":  {NoCloud{NetworkConfig: "version: 1\n"}, "list with the key config"},
		"2 with config":     {NoCloud{NetworkConfig: "version: 2\nconfig: []\n"}, "line 2: version 2 has no key config"},
		"no mapping":        {NoCloud{NetworkConfig: "hunter2"}, "must be a YAML mapping"},
		"network, a text":   {NoCloud{NetworkConfig: "network: hunter2"}, "network must be a mapping"},
		"bad YAML":          {NoCloud{NetworkConfig: "version: 2\n  a: hunter2"}, "it isn't valid YAML"},
		"meta data, YAML":   {NoCloud{MetaData: "a: [hunter2"}, "meta_data, line 1: it isn't valid YAML"},
		"another instance":  {NoCloud{InstanceID: "a", MetaData: "instance-id: hunter2"}, "differs from the attribute"},
		"instance, no text": {NoCloud{MetaData: "instance-id: {hunter2: 1}"}, "isn't a text"},
		"too large":         {NoCloud{UserData: "#!" + strings.Repeat("x", MaxBytes)}, "at most 16777216 are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkProblems(t, test.n.Validate(), test.want)
			if _, err := test.n.Medium(); test.want != "" && err == nil {
				t.Error("a medium was made of it")
			}
		})
	}
}

func TestValidateIgnition(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"3.4.0":           {`{"ignition": {"version": "3.4.0"}, "passwd": {}}`, ""},
		"2.3.0":           {`{"ignition": {"version": "2.3.0"}}`, ""},
		"experimental":    {`{"ignition": {"version": "3.7.0-experimental"}}`, ""},
		"empty":           {"", "isn't valid JSON"},
		"no version":      {`{"ignition": {}}`, "names no ignition.version"},
		"no ignition":     {`{}`, "names no ignition.version"},
		"another version": {`{"ignition": {"version": "hunter2"}}`, "none that is known"},
		"version 4":       {`{"ignition": {"version": "4.0.0"}}`, "none that is known"},
		"a number":        {"{\"ignition\":\n{\"version\": 3}}", "line 2: it isn't valid JSON"},
		"bad JSON":        {"{\n\"hunter2\" 1}", "line 2: it isn't valid JSON"},
		"cut off":         {"{\"ignition\":\n", "config, line 2: it isn't valid JSON"},
		"Butane":          {"variant: fcos\npassword: hunter2\n", "butane --strict"},
		"more than one":   {`{"ignition": {"version": "3.4.0"}} {}`, "something follows"},
		"too large":       {strings.Repeat(" ", MaxBytes+1), "at most 16777216 are accepted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkProblems(t, ValidateIgnition(test.text), test.want)
		})
	}
}
