package domain

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what was read to the golden files")

// samples are definitions of many origins, by name.
func samples(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/*.xml")
	if err != nil || len(files) < 12 {
		t.Fatalf("there are %d samples: %v", len(files), err)
	}
	found := map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(file), ".xml")] = string(data)
	}
	return found
}

func parse(t testing.TB, xml string) *Definition {
	t.Helper()
	d, err := Parse(xml)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func sample(t testing.TB, name string) *Definition {
	t.Helper()
	xml, ok := samples(t)[name]
	if !ok {
		t.Fatalf("no sample %s", name)
	}
	return parse(t, xml)
}

func output(t testing.TB, d *Definition) string {
	t.Helper()
	xml, err := d.XML()
	if err != nil {
		t.Fatal(err)
	}
	return xml
}

// What is read of each sample is written down in full in a file next to it.
func TestSpec_readsEverySample(t *testing.T) {
	t.Parallel()
	for name, xml := range samples(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := json.MarshalIndent(parse(t, xml).Spec(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, append(got, '\n'), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestXML_keepsEverySample(t *testing.T) {
	t.Parallel()
	for name, xml := range samples(t) {
		d := parse(t, xml)
		again := parse(t, output(t, d))
		if diff := cmp.Diff(d.Canonical(), again.Canonical()); diff != "" {
			t.Errorf("%s changes by being written:\n%s", name, diff)
		}
	}
}

func TestApply_ownSpecChangesNothing(t *testing.T) {
	t.Parallel()
	for name, xml := range samples(t) {
		d := parse(t, xml)
		before := output(t, d)
		if err := d.Apply(d.Spec()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, output(t, d)); diff != "" {
			t.Errorf("%s changes:\n%s", name, diff)
		}
		if changes := Changes(d.Spec(), d.Spec()); len(changes) > 0 {
			t.Errorf("%s differs from itself: %v", name, changes)
		}
	}
}

func TestApply_nothingDeclaredChangesNothing(t *testing.T) {
	t.Parallel()
	for name, xml := range samples(t) {
		d := parse(t, xml)
		before := output(t, d)
		if err := d.Apply(Spec{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(before, output(t, d)); diff != "" {
			t.Errorf("%s changes:\n%s", name, diff)
		}
	}
}

// What a plan does for each VM.
func BenchmarkParseAndSpec(b *testing.B) {
	xml := samples(b)["virt-install-q35"]
	for b.Loop() {
		parse(b, xml).Spec()
	}
}
