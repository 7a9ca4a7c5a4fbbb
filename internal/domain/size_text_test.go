package domain_test

import (
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	const mi, gi = 1 << 20, 1 << 30
	for n, want := range map[uint64]struct{ exact, compared, progress string }{
		0:             {"0", "0Ki", "0 B"},
		1000:          {"1000", "1Ki", "1000 B"},
		1023:          {"1023", "1Ki", "1023 B"},
		5 << 10:       {"5Ki", "5Ki", "5.0 KiB"},
		1000 << 10:    {"1000Ki", "1000Ki", "1.0 MiB"},
		2 * mi:        {"2Mi", "2Mi", "2.0 MiB"},
		3*mi + 1<<10:  {"3073Ki", "3073Ki", "3.0 MiB"},
		20*mi + 1<<10: {"20481Ki", "20Mi", "20.0 MiB"},
		3 * gi / 2:    {"1536Mi", "1536Mi", "1.5 GiB"},
		2 * gi:        {"2Gi", "2Gi", "2.0 GiB"},
		3*gi + 1<<10:  {"3145729Ki", "3072Mi", "3.0 GiB"},
		5 << 40:       {"5Ti", "5Ti", "5.0 TiB"},
		1 << 60:       {"1024Pi", "1048576Ti", "1.0 EiB"},
	} {
		if got := domain.ExactSize(n); got != want.exact {
			t.Errorf("ExactSize(%d) = %q, want %q", n, got, want.exact)
		}
		if got := domain.FormatSize(n); got != want.compared {
			t.Errorf("FormatSize(%d) = %q, want %q", n, got, want.compared)
		}
		if got := domain.FormatProgress(n); got != want.progress {
			t.Errorf("FormatProgress(%d) = %q, want %q", n, got, want.progress)
		}
	}
}
