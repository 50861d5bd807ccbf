/** Times as people read them: the day only where it is another one. */

export function tellTime(time: Date): string {
  const isToday = time.toDateString() === new Date().toDateString();
  const clock = time.toLocaleTimeString("en-GB");
  return isToday ? clock : `${time.toLocaleDateString("en-CA")} ${clock}`;
}
