package inventory

// Next is what a user does once the remedy is done, or at once if there is none. It has no words here, because these
// depend on the tool with which the user works: whoever shows the error says it in the words of that tool.
type Next int

const (
	// Retry does the same again.
	Retry Next = iota + 1
	// Continue does the same again, which continues with what is not done yet.
	Continue
	// Replan finds out again what is to be done, because it differs from what was decided, and does that.
	Replan
	// Review has it shown again what would be done, and decides whether to do it.
	Review
	// DeleteFirst deletes what exists already before the new one is created, if that one is to replace it.
	DeleteFirst
	// EndMaintenance ends the maintenance of a host, which may have to be made known first: the run that began it may have
	// been killed before that was saved.
	EndMaintenance
	// InOrder has one change made only after another one, or as a change of its own.
	InOrder
)
