import java.math.BigDecimal;
import java.math.MathContext;
import java.math.RoundingMode;

/** Float text: the shortest decimal digits that read back, laid out as the canonical form says. */
final class FloatText {
    /** Reads back by way of binary64 to the value whose text is wanted. */
    private interface ReadsBack {
        boolean test(double candidate);
    }

    private FloatText() {}

    static String of(double number) {
        return sign(number) + text(Math.abs(number), candidate -> candidate == Math.abs(number));
    }

    static String of(float number) {
        return sign(number) + text(Math.abs(number), candidate -> (float) candidate == Math.abs(number));
    }

    private static String sign(double number) {
        return Double.doubleToRawLongBits(number) < 0 ? "-" : "";
    }

    private static String text(double number, ReadsBack readsBack) {
        return number == 0 ? "0.0" : layout(shortest(new BigDecimal(number), readsBack));
    }

    /** Both neighbours of each precision are tried: where one text of that many digits reads back, one of the two does. */
    private static BigDecimal shortest(BigDecimal exact, ReadsBack readsBack) {
        for (int precision = 1; ; precision++) {
            MathContext nearest = new MathContext(precision, RoundingMode.HALF_EVEN);
            BigDecimal first = exact.round(nearest);
            BigDecimal below = exact.round(new MathContext(precision, RoundingMode.DOWN));
            BigDecimal second = first.equals(below) ? exact.round(new MathContext(precision, RoundingMode.UP)) : below;
            if (readsBack.test(first.doubleValue())) {
                return first;
            }
            if (readsBack.test(second.doubleValue())) {
                return second;
            }
        }
    }

    private static String layout(BigDecimal number) {
        String digits = number.stripTrailingZeros().unscaledValue().toString();
        int point = number.precision() - number.scale(); // 0.DIGITS * 10^point
        if (point <= -5 || point > 16) {
            String fraction = digits.length() > 1 ? "." + digits.substring(1) : "";
            return digits.charAt(0) + fraction + "e" + (point - 1);
        }
        if (point <= 0) {
            return "0." + "0".repeat(-point) + digits;
        }
        String whole = digits + "0".repeat(Math.max(0, point - digits.length()));
        String fraction = whole.substring(point);
        return whole.substring(0, point) + "." + (fraction.isEmpty() ? "0" : fraction);
    }
}
