package cdcviews;

/** A mutation that the wire format cannot carry; the message says what of it, without values. */
final class Unreadable extends RuntimeException {
    Unreadable(String reason) {
        super(reason, null, false, false);
    }
}
