package domaintest

import (
	"slices"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

// TestValues_everyRowHasSome: a row without values would be drawn by no test.
func TestValues_everyRowHasSome(t *testing.T) {
	t.Parallel()
	rows := slices.Concat(domain.DiskRows, domain.NetworkRows, domain.InterfaceRows)
	for _, g := range domain.Groups {
		rows = append(rows, g.Attributes...)
	}
	for _, f := range domain.Families {
		rows = append(rows, f.Attributes...)
	}
	for _, a := range rows {
		if len(Values(a)) == 0 {
			t.Errorf("%s takes none of the candidates: add one that it takes", a.Name)
		}
	}
}
