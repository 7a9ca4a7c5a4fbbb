package storage

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// After an upload was cut, a copy that is used by then, or may be, is no part of the upload to be removed. Whether it
// is used may be unknown because another host can't be reached, which is no reason for another try.
func TestRetryCut_keepsWhatIsUsed(t *testing.T) {
	t.Parallel()

	for name, tt := range map[string]struct {
		second error
		tries  int
		began  bool
	}{
		"used":                      {keptError{fmt.Errorf("%w: by VM web", ErrInUse)}, 2, false},
		"unknown":                   {keptError{fmt.Errorf("asking kvm2: %w", libvirt.ErrUnreachable)}, 2, false},
		"refused for other reasons": {libvirt.ErrOperationInvalid, 2, true},
		"sent":                      {nil, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			tries := 0
			s := &Storage{Log: slog.New(slog.DiscardHandler)}
			began, err := s.retryCut(t.Context(), "kvm1", Ref{}, func() (bool, error) {
				if tries++; tries == 1 {
					return true, libvirt.ErrUnreachable
				}
				return tt.second == nil, tt.second
			})
			if tries != tt.tries || began != tt.began || fmt.Sprint(err) != fmt.Sprint(tt.second) {
				t.Errorf("%d tries, something to remove: %v, %v", tries, began, err)
			}
		})
	}
}
