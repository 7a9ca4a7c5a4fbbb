package lease

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// UsagePrefix is the beginning of the usage id of a lease's secret; the lease's name follows.
const UsagePrefix = "virtfleet:lock:"

// record is the secret's value, for users and for runs that wait for the lease.
type record struct {
	Owner   string    `json:"owner"`
	Purpose string    `json:"purpose"`
	Since   time.Time `json:"since"`
	Beat    int       `json:"beat"`
}

// encode returns the record as JSON. It can't fail: JSON can represent all fields.
func (r record) encode() []byte {
	value, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}

	return value
}

// Holder describes who holds a lease: "<owner> is <purpose> it since <time>".
func Holder(s libvirt.OwnSecret) string {
	var r record
	if err := json.Unmarshal(s.Value, &r); err != nil {
		return "another run is changing it"
	}

	return fmt.Sprintf("%s is %s it since %s", r.Owner, r.Purpose, r.Since.Format(time.RFC3339))
}

// ownerOf returns the name of the run that holds a lease, "" if its secret doesn't say it.
func ownerOf(s libvirt.OwnSecret) string {
	var r record
	if err := json.Unmarshal(s.Value, &r); err != nil {
		return ""
	}

	return r.Owner
}
